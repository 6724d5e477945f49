"""What a broker's retention deletes, and when: policies, a forecast, and the plan that carries it out."""
