"""What a plug-in is: the typed pages that its module is held to."""
