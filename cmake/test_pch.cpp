// The translation unit that owns the precompiled header of the tests; it has no code of its own.
