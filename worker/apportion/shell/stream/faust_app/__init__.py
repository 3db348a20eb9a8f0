"""The Faust application: the only code that imports Faust. The pipeline decides the order of writes."""
