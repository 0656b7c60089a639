"""An example of plug-ins that another package brings."""
