"""What every floor above stands on: errors, limits, settings, files that are kept. It knows of no tensor."""
