"""What every room stands on: errors, options, seeds, records, statistics, parallel map, sweep, journal."""
