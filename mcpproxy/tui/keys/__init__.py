"""Key presses: the keys of each action, and the queue that passes key presses on one by one."""
