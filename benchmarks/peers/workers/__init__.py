"""What runs in a candidate's own process. Nothing here may import kvboost's packages: they are not installed there."""
