SELECT count(*) FROM shop WHERE turnover > 500;
