"""What all repairing verbs share: the plan as a value (`plan`), its execution (`apply`) and its reversal (`undo`)."""
