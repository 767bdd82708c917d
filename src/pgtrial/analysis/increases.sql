-- Increase of counters over the measured windows, linear between the readings next to a window's ends: each step
-- from one reading to the next counts with the share of its time that lies inside the window. The first and the last
-- step also stand for what lies between them and the window's ends, if that is no longer than the step itself: then
-- no reading is missing, the next one was only not due yet. No increase (NULL) where a step goes down, which is a
-- reset, or where the readings do not reach that far.
--
-- Where the arms of a block share its time (windows of slices), a server's own counters stand still while the server
-- does. Their time is the arm's own: the seconds that it has been at work. There only steps between two readings
-- inside the window count, because what lies around it is no time of the arm's own. The sampler is stopped and goes on
-- with its arm, so a step may be very short: the longest says when a reading is due, and all of them together stand for
-- the ends. Counters of the machine keep the time of the clock.
--
-- lead() needs no order of its own: the rows of a table keep theirs, and those of reading lie by run, counter, object
-- and time.
WITH reading_time AS (
    SELECT reading.run, clock, before + least(clock, stretch.ended) - stretch.started AS own
    FROM (SELECT DISTINCT run, t AS clock FROM reading) AS reading
    ASOF JOIN stretch ON reading.run = stretch.run AND clock >= stretch.started
),
pair AS (
    SELECT run, metric, object, value,
           starts_with(metric, 'pg_stat_') OR starts_with(metric, 'backend_cpu.') AS is_own,
           t              AS clock,
           lead(t) OVER () AS next_clock,
           lead(value) OVER () AS next_value,
           lead(run) OVER () = run AND lead(metric) OVER () = metric AND lead(object) OVER () = object AS is_step
    FROM reading
    WHERE metric <> ?
),
step AS (
    SELECT pair.run, metric, object, pair.clock, next_clock, value, next_value, is_own, this.own, following.own AS next_own,
           CASE WHEN is_own THEN this.own ELSE pair.clock END AS t,
           CASE WHEN is_own THEN following.own ELSE next_clock END AS next_t
    FROM pair
    JOIN reading_time AS this ON this.run = pair.run AND this.clock = pair.clock
    JOIN reading_time AS following ON following.run = pair.run AND following.clock = next_clock
    WHERE is_step
),
inside AS (
    SELECT run, level, metric, object, t, next_t, is_own AND is_sliced AS is_shared,
           next_t - t                          AS length,
           next_own - own                      AS own_length,
           next_value - value                  AS rise,
           (next_value - value) / (next_t - t) AS rate,
           CASE WHEN is_own THEN own_started ELSE started END AS start_t,
           CASE WHEN is_own THEN own_ended ELSE ended END     AS end_t
    FROM step
    JOIN measured USING (run)
    WHERE next_t > t AND t < end_t AND next_t > start_t
      AND (NOT is_shared OR (clock >= started AND next_clock <= ended))
),
total AS (
    SELECT run, level, metric, object, any_value(is_shared) AS is_shared,
           min(rise)                                                       AS smallest_rise,
           sum(rate * (least(next_t, end_t) - greatest(t, start_t)))       AS increase,
           max(length)                                                     AS longest,
           max(own_length)                                                 AS own_longest,
           greatest(0, min(t) - any_value(start_t))                        AS before,
           greatest(0, any_value(end_t) - max(next_t))                     AS after,
           sum(length)                                                     AS covered,
           arg_min(rate, t)                                                AS first_rate,
           arg_min(length, t)                                              AS first_length,
           arg_max(rate, t)                                                AS last_rate,
           arg_max(length, t)                                              AS last_length
    FROM inside
    GROUP BY run, level, metric, object
)
SELECT run, level, metric, object,
       CASE
           WHEN smallest_rise < 0 THEN NULL
           WHEN is_shared AND greatest(before, after) <= longest
           THEN increase * (1 + (before + after) / covered)
           WHEN NOT is_shared AND before <= first_length AND after <= last_length
           THEN increase + before * first_rate + after * last_rate
       END AS increase,
       greatest(own_longest, before, after) AS gap
FROM total
