"""Recording less: what each class and descriptor of a run costs, what a profile can do without, what a bug needs.

Runs in: `gdbrr suggest` and `gdbrr minimize`. May call: nothing.
Owns: nothing.
"""
