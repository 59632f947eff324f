"""Files that become documents, once or for as long as scanners write them."""
