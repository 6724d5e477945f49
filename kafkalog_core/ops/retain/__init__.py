"""`retain`: which segments retention deletes and when (`forecaster`), and the plan that deletes them (`retain`)."""
