"""The conformance kit: proof that a backend does what it says, for vendors, users and the project's own backends alike."""
