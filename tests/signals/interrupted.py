"""Signals in an interpreter: handlers, KeyboardInterrupt from a child, a timeout that ends a loop without calls."""

import os
import signal
import time

hits = 0


def on(number: int, frame: object) -> None:
    global hits
    hits += 1


def stop(number: int, frame: object) -> None:
    raise TimeoutError


signal.signal(signal.SIGUSR1, on)
signal.signal(signal.SIGALRM, stop)
parent = os.getpid()
child = os.fork()
if child == 0:
    for _ in range(20):
        os.kill(parent, signal.SIGUSR1)
        time.sleep(0.002)
    os.kill(parent, signal.SIGINT)
    os._exit(0)
turns = 0
seen = 0.0
try:
    while True:
        turns += 1
        time.sleep(0.001)
        seen = [time.monotonic() for _ in range(50)][-1]
except KeyboardInterrupt:
    print("interrupted", hits, turns, seen)
os.waitpid(child, 0)
count = 0
signal.setitimer(signal.ITIMER_REAL, 0.05)
try:
    while True:
        count += 1
except TimeoutError:
    print("counted", count)
