"""A unit of work by SQLAlchemy, of whichever version the Python has that runs this."""

import json
import os
import random
import sys
import threading
import time

import sqlalchemy
from sqlalchemy import Column, Integer
from sqlalchemy.orm import Session, declarative_base

Base, CLIENTS = declarative_base(), int(os.environ["PGTRIAL_CLIENTS"])
ENGINE = sqlalchemy.create_engine("postgresql+psycopg2://", pool_size=CLIENTS)  # libpq knows where the server is


class Account(Base):
    __tablename__ = "pgbench_accounts"
    aid, bid, abalance = Column(Integer, primary_key=True), Column(Integer), Column(Integer)


class Teller(Base):
    __tablename__ = "pgbench_tellers"
    tid, bid, tbalance = Column(Integer, primary_key=True), Column(Integer), Column(Integer)


def work(draw):
    while True:
        begun = time.monotonic()
        with Session(ENGINE) as session:
            account = session.get(Account, draw.randint(1, 1_000_000))
            account.abalance += len(session.query(Teller).filter_by(bid=account.bid).all())
            session.commit()
        print(json.dumps({"t": time.time(), "latency": time.monotonic() - begun}) + "\n", end="", flush=True)


print("SQLAlchemy", sqlalchemy.__version__, file=sys.stderr)
for client in range(CLIENTS):
    threading.Thread(target=work, args=(random.Random(int(os.environ["PGTRIAL_SEED"]) + client),)).start()
