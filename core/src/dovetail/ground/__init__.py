"""What every floor above stands on: errors, limits, settings, kept files; it knows of no tensor."""
