"""Define what a plug-in may declare: the typed interface that each method's module is checked against."""
