-- The nine tables of a wholesale supplier, filled as clause 4.3.3 of the TPC-C specification asks.
-- Every value is a hash of its row's number, so that all servers and all attempts get the same rows.
CREATE FUNCTION tpcc_random(place bigint, stream integer, low integer, high integer) RETURNS integer
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS $$ SELECT low + ((hashint8extended(place, stream) & 9223372036854775807) % (high - low + 1))::integer $$;

-- Sixteen hexadecimal digits: the highest bit is set, so that none is missing.
CREATE FUNCTION tpcc_digits(place bigint, stream integer) RETURNS text
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS $$ SELECT to_hex(hashint8extended(place, stream) | (-9223372036854775807 - 1)) $$;

-- Text of up to 64 characters.
CREATE FUNCTION tpcc_text(place bigint, stream integer, low integer, high integer) RETURNS text
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS $$
        SELECT left(tpcc_digits(place, stream) || tpcc_digits(place, stream + 1) || tpcc_digits(place, stream + 2)
                    || tpcc_digits(place, stream + 3), tpcc_random(place, stream + 4, low, high))
    $$;

-- Text of 24 characters.
CREATE FUNCTION tpcc_dist_info(place bigint, stream integer) RETURNS text
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS $$ SELECT tpcc_digits(place, stream) || left(tpcc_digits(place, stream + 1), 8) $$;

-- The last names that numbers from 0 to 999 stand for (clause 4.3.2.3); the load asks for them, too.
CREATE FUNCTION tpcc_last_name(number integer) RETURNS text
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS $$
        SELECT syllable[number / 100 + 1] || syllable[number / 10 % 10 + 1] || syllable[number % 10 + 1]
        FROM (VALUES ('{BAR,OUGHT,ABLE,PRI,PRES,ESE,ANTI,CALLY,ATION,EING}'::text[])) AS name (syllable)
    $$;

CREATE TABLE warehouse (
    w_id integer, w_name varchar(10), w_street_1 varchar(20), w_street_2 varchar(20), w_city varchar(20),
    w_state char(2), w_zip char(9), w_tax numeric(4, 4), w_ytd numeric(14, 2)
);
CREATE TABLE district (
    d_id integer, d_w_id integer, d_name varchar(10), d_street_1 varchar(20), d_street_2 varchar(20),
    d_city varchar(20), d_state char(2), d_zip char(9), d_tax numeric(4, 4), d_ytd numeric(14, 2),
    d_next_o_id integer
);
CREATE TABLE customer (
    c_id integer, c_d_id integer, c_w_id integer, c_first varchar(16), c_middle char(2), c_last varchar(16),
    c_street_1 varchar(20), c_street_2 varchar(20), c_city varchar(20), c_state char(2), c_zip char(9),
    c_phone char(16), c_since timestamptz, c_credit char(2), c_credit_lim numeric(12, 2), c_discount numeric(4, 4),
    c_balance numeric(14, 2), c_ytd_payment numeric(14, 2), c_payment_cnt integer, c_delivery_cnt integer,
    c_data varchar(500)
);
CREATE TABLE history (
    h_c_id integer, h_c_d_id integer, h_c_w_id integer, h_d_id integer, h_w_id integer, h_date timestamptz,
    h_amount numeric(6, 2), h_data varchar(24)
);
CREATE TABLE new_order (no_o_id integer, no_d_id integer, no_w_id integer);
CREATE TABLE orders (
    o_id integer, o_d_id integer, o_w_id integer, o_c_id integer, o_entry_d timestamptz, o_carrier_id integer,
    o_ol_cnt integer, o_all_local integer
);
CREATE TABLE order_line (
    ol_o_id integer, ol_d_id integer, ol_w_id integer, ol_number integer, ol_i_id integer, ol_supply_w_id integer,
    ol_delivery_d timestamptz, ol_quantity integer, ol_amount numeric(6, 2), ol_dist_info char(24)
);
CREATE TABLE item (i_id integer, i_im_id integer, i_name varchar(24), i_price numeric(5, 2), i_data varchar(50));
CREATE TABLE stock (
    s_i_id integer, s_w_id integer, s_quantity integer, s_dist_01 char(24), s_dist_02 char(24), s_dist_03 char(24),
    s_dist_04 char(24), s_dist_05 char(24), s_dist_06 char(24), s_dist_07 char(24), s_dist_08 char(24),
    s_dist_09 char(24), s_dist_10 char(24), s_ytd integer, s_order_cnt integer, s_remote_cnt integer,
    s_data varchar(50)
);

INSERT INTO item
SELECT i, tpcc_random(i, 1, 1, 10000), tpcc_text(i, 100, 14, 24), tpcc_random(i, 2, 100, 10000) / 100.0,
       CASE WHEN tpcc_random(i, 3, 1, 10) = 1 THEN tpcc_text(i, 200, 10, 16) || 'ORIGINAL' || tpcc_text(i, 210, 8, 16)
            ELSE tpcc_text(i, 200, 26, 50) END
FROM generate_series(1, 100000) AS i;

INSERT INTO warehouse
SELECT w, tpcc_text(w, 300, 6, 10), tpcc_text(w, 310, 10, 20), tpcc_text(w, 320, 10, 20), tpcc_text(w, 330, 10, 20),
       upper(tpcc_text(w, 340, 2, 2)), lpad(tpcc_random(w, 4, 0, 9999)::text, 4, '0') || '11111',
       tpcc_random(w, 5, 0, 2000) / 10000.0, 300000
FROM generate_series(1, :scale) AS w;

INSERT INTO district
SELECT d, w, tpcc_text(place, 400, 6, 10), tpcc_text(place, 410, 10, 20), tpcc_text(place, 420, 10, 20),
       tpcc_text(place, 430, 10, 20), upper(tpcc_text(place, 440, 2, 2)),
       lpad(tpcc_random(place, 6, 0, 9999)::text, 4, '0') || '11111', tpcc_random(place, 7, 0, 2000) / 10000.0,
       30000, 3001
FROM generate_series(1, :scale) AS w
CROSS JOIN generate_series(1, 10) AS d
CROSS JOIN LATERAL (VALUES (w * 10::bigint + d)) AS district (place);

-- The first thousand customers of a district have all the names, the others as many as clause 2.1.6 says.
INSERT INTO customer
SELECT c, d, w, tpcc_text(place, 500, 8, 16), 'OE',
       tpcc_last_name(
           CASE WHEN c <= 1000 THEN c - 1
                ELSE ((tpcc_random(place, 8, 0, 255) | tpcc_random(place, 9, 0, 999)) + 120) % 1000 END
       ),
       tpcc_text(place, 510, 10, 20), tpcc_text(place, 520, 10, 20), tpcc_text(place, 530, 10, 20),
       upper(tpcc_text(place, 540, 2, 2)), lpad(tpcc_random(place, 10, 0, 9999)::text, 4, '0') || '11111',
       lpad((hashint8extended(place, 550) & 9223372036854775807)::text, 16, '0')::char(16),
       '2020-01-01 00:00:00+00', CASE WHEN tpcc_random(place, 11, 1, 10) = 1 THEN 'BC' ELSE 'GC' END, 50000,
       tpcc_random(place, 12, 0, 5000) / 10000.0, -10, 10, 1, 0, left(
           encode(sha512(int8send(place * 4)), 'hex') || encode(sha512(int8send(place * 4 + 1)), 'hex')
           || encode(sha512(int8send(place * 4 + 2)), 'hex') || encode(sha512(int8send(place * 4 + 3)), 'hex'),
           tpcc_random(place, 600, 300, 500)
       )
FROM generate_series(1, :scale) AS w
CROSS JOIN generate_series(1, 10) AS d
CROSS JOIN generate_series(1, 3000) AS c
CROSS JOIN LATERAL (VALUES ((w * 10::bigint + d) * 3000 + c)) AS customer (place);

INSERT INTO history
SELECT c, d, w, d, w, '2020-01-01 00:00:00+00', 10, tpcc_text((w * 10::bigint + d) * 3000 + c, 700, 12, 24)
FROM generate_series(1, :scale) AS w
CROSS JOIN generate_series(1, 10) AS d
CROSS JOIN generate_series(1, 3000) AS c;

INSERT INTO stock
SELECT i, w, tpcc_random(place, 13, 10, 100), tpcc_dist_info(place, 800), tpcc_dist_info(place, 810),
       tpcc_dist_info(place, 820), tpcc_dist_info(place, 830), tpcc_dist_info(place, 840),
       tpcc_dist_info(place, 850), tpcc_dist_info(place, 860), tpcc_dist_info(place, 870),
       tpcc_dist_info(place, 880), tpcc_dist_info(place, 890), 0, 0, 0,
       CASE WHEN tpcc_random(place, 14, 1, 10) = 1
            THEN tpcc_text(place, 900, 10, 16) || 'ORIGINAL' || tpcc_text(place, 910, 8, 16)
            ELSE tpcc_text(place, 900, 26, 50) END
FROM generate_series(1, :scale) AS w
CROSS JOIN generate_series(1, 100000) AS i
CROSS JOIN LATERAL (VALUES (w * 100000::bigint + i)) AS stock (place);

-- Each customer of a district has one order; which, is a permutation of them.
INSERT INTO orders
SELECT row_number() OVER (PARTITION BY w, d ORDER BY hashint8extended(place, 15), c), d, w, c,
       '2020-01-01 00:00:00+00', NULL, tpcc_random(place, 16, 5, 15), 1
FROM generate_series(1, :scale) AS w
CROSS JOIN generate_series(1, 10) AS d
CROSS JOIN generate_series(1, 3000) AS c
CROSS JOIN LATERAL (VALUES ((w * 10::bigint + d) * 3000 + c)) AS customer (place);

-- The last 900 orders of a district are still to be delivered.
UPDATE orders
SET o_carrier_id = tpcc_random((o_w_id * 10::bigint + o_d_id) * 3000 + o_id, 17, 1, 10)
WHERE o_id <= 2100;

INSERT INTO new_order SELECT o_id, o_d_id, o_w_id FROM orders WHERE o_id > 2100;

INSERT INTO order_line
SELECT o_id, o_d_id, o_w_id, number, tpcc_random(place, 18, 1, 100000), o_w_id,
       CASE WHEN o_id <= 2100 THEN o_entry_d END, 5,
       CASE WHEN o_id <= 2100 THEN 0 ELSE tpcc_random(place, 19, 1, 999999) / 100.0 END, tpcc_dist_info(place, 1000)
FROM orders
CROSS JOIN LATERAL generate_series(1, o_ol_cnt) AS number
CROSS JOIN LATERAL (VALUES (((o_w_id * 10::bigint + o_d_id) * 3000 + o_id) * 15 + number)) AS line (place);

DROP FUNCTION tpcc_dist_info(bigint, integer);
DROP FUNCTION tpcc_text(bigint, integer, integer, integer);
DROP FUNCTION tpcc_digits(bigint, integer);
DROP FUNCTION tpcc_random(bigint, integer, integer, integer);

ALTER TABLE warehouse ADD PRIMARY KEY (w_id);
ALTER TABLE district ADD PRIMARY KEY (d_w_id, d_id);
ALTER TABLE customer ADD PRIMARY KEY (c_w_id, c_d_id, c_id);
ALTER TABLE orders ADD PRIMARY KEY (o_w_id, o_d_id, o_id);
ALTER TABLE new_order ADD PRIMARY KEY (no_w_id, no_d_id, no_o_id);
ALTER TABLE order_line ADD PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number);
ALTER TABLE item ADD PRIMARY KEY (i_id);
ALTER TABLE stock ADD PRIMARY KEY (s_w_id, s_i_id);
CREATE INDEX customer_name ON customer (c_w_id, c_d_id, c_last, c_first);
CREATE INDEX orders_customer ON orders (o_w_id, o_d_id, o_c_id, o_id);
