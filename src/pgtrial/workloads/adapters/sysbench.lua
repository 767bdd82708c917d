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

local prepared, original = init, event
local begun, retries = nil, 0

-- Its options are known only now, also those of a configuration that pgtrial has not looked into.
function init(...)
   if sysbench.opt.rate > 0 then
      io.stderr:write("a rate of sysbench's own is not seen: how late an event was begun is in no latency\n")
      os.exit(1)
   end
   return prepared and prepared(...)
end

local function tell(...)
   io.write(string.format(...))
   io.flush()
end

-- sysbench calls it again after a deadlock or a serialization failure: the event then takes as long as all its tries.
function event(...)
   begun = begun or now(MONOTONIC)
   local is_done, result = pcall(original, ...)
   if is_done then
      tell('{"t": %.6f, "latency": %.6f, "retries": %d}\n', now(REALTIME), now(MONOTONIC) - begun, retries)
      begun, retries = nil, 0
      return result
   end
   if type(result) == "table" and result.errcode == sysbench.error.RESTART_EVENT then
      retries = retries + 1
   else
      tell('{"t": %.6f, "failed": true}\n', now(REALTIME))
   end
   error(result, 0)
end
