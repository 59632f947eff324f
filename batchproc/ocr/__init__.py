"""From a document's bytes to its text, page by page. Knows nothing of databases, jobs, tenants or settings files."""
