"""The forms of logs: a module for each, with `FORM`; `_` in its name stands for `-` in the name of the form."""
