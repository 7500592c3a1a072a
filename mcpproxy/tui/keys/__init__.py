"""Key presses: which action a key has, and the queue that passes them on one by one."""
