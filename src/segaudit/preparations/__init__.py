"""What the commands before an audit do: read, split, look for leaks, tabulate, and write.

Each command has its module (`splitting`, `leaking`, `composing`), so that none waits for what another imports.
"""
