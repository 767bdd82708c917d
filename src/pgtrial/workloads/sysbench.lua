-- Tells of each event of another sysbench script: one line of JSON when it has ended.

local ffi = require("ffi")

ffi.cdef[[
typedef struct { long seconds; long nanoseconds; } pgtrial_time;
int clock_gettime(int clock, pgtrial_time *time);
]]

local REALTIME, MONOTONIC = 0, 1
local time = ffi.new("pgtrial_time")

local function now(clock)
   ffi.C.clock_gettime(clock, time)
   return tonumber(time.seconds) + tonumber(time.nanoseconds) * 1e-9
end

local script = os.getenv("PGTRIAL_SYSBENCH_SCRIPT")
if script:find("%.lua$") then
   dofile(script)
else
   require(script)
end

local original = event

function event(...)
   local begun = now(MONOTONIC)
   local is_done, failure = pcall(original, ...)
   local latency = now(MONOTONIC) - begun
   if is_done then
      io.write(string.format('{"t": %.6f, "latency": %.6f}\n', now(REALTIME), latency))
   else
      io.write(string.format('{"t": %.6f, "failed": true}\n', now(REALTIME)))
   end
   io.flush()
   if not is_done then
      error(failure, 0)
   end
end
