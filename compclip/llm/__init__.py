"""Ask language models: requests, cached answers, a server for the length of a task."""
