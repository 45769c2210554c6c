"""The program between a document and its source: a snapshot of the document, bound and named."""
