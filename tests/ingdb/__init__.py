"""Tests of gdbrr's commands inside a real GDB, one GDB process a test."""
