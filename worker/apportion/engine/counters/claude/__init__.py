"""Token counts of Claude's tokenizers, from the vocabularies that ctok 1.3.0 reconstructed."""
