"""Rules for titles, tags and workflows: what they are, and what they find. Only ``files`` does IO."""
