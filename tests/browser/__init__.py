"""What is seen: pages opened in Chromium, at two sizes, light and dark, with and without scripts."""
