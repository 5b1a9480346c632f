package schema

// validationCost is the cost of validating with a schema.
type validationCost struct {
	cost
	instructions int // of all compiled patterns
	// it has uniqueItems: the library compares items whose hashes are equal, and the sender can produce such items
	unique bool
}

// cost is the cost of the schemas that are applied along the path from the root to one value.
type cost struct {
	visits   int // schemas, and values of their enums
	matching int // instructions of their patterns: steps for each byte of text
}

// plus adds two costs and caps each sum at its bound plus 1.
func (c cost) plus(d cost) cost {
	return cost{min(c.visits+d.visits, maxVisits+1), min(c.matching+d.matching, maxWork+1)}
}

// exceeded reports whether validating that many values, with that many bytes of text, may take too long.
func (e validationCost) exceeded(values, text int) bool {
	work := values*e.visits + text/stepsPerVisit*e.matching
	if e.unique {
		work += values * values / 16
	}
	return work > maxWork
}

// cost returns an upper bound of the cost along the path to any one value at most depth levels below. It stops counting
// at the bounds plus 1.
func (n *schemaNode) cost(depth int) cost {
	if n.costFor[depth].visits > 0 {
		return n.costFor[depth]
	}
	sum, most := cost{}.plus(cost{1 + n.enum, n.matching}), cost{}
	for _, m := range n.here {
		sum = sum.plus(m.cost(depth))
	}
	if depth > 0 {
		for _, m := range n.below {
			sum = sum.plus(m.cost(depth - 1))
		}
		for _, m := range n.oneBelow {
			c := m.cost(depth - 1)
			most = cost{max(most.visits, c.visits), max(most.matching, c.matching)}
		}
	}
	n.costFor[depth] = sum.plus(most)
	return n.costFor[depth]
}
