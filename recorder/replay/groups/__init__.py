"""Consumer groups: members, generations, assignments. `translator` finds the room of an API."""
