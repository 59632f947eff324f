"""Looking at documents, their text and its revisions."""
