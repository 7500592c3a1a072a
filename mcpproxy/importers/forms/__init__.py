"""The forms of logs. Each has a module that defines `FORM`; `_` in the name of the module is `-` in that of the form."""
