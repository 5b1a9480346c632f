package schema

// validationCost is the cost of validating with a schema.
type validationCost struct {
	cost             // for one value
	instructions int // of all compiled patterns
	// unique means that the schema has uniqueItems. The library then compares items with equal hashes to each other, and
	// the sender of the arguments can choose such items.
	unique bool
}

// cost is the cost of the schemas that are applied along the path from the root to one value.
type cost struct {
	visits   int // number of schemas, and of values of their enums
	matching int // instructions of their patterns, which is the number of steps for each byte of text
}

// plus returns the sum of two costs. It limits each field to its bound plus 1, so that sums cannot overflow.
func (c cost) plus(d cost) cost {
	return cost{min(c.visits+d.visits, maxVisits+1), min(c.matching+d.matching, maxWork+1)}
}

// exceeded reports whether validating this number of values, with text bytes in their strings, may take too long.
func (e validationCost) exceeded(values, text int) bool {
	work := values*e.visits + text/stepsPerVisit*e.matching
	if e.unique {
		work += values * values / 16 // in the worst case each item is compared to each other one
	}
	return work > maxWork
}

// cost returns an upper bound of the cost along the path from this schema's value to any value at most depth levels
// below it. It must be called only if there are no cycles. Results are kept in costAt, because many schemas may refer
// to the same one.
func (n *schemaNode) cost(depth int) cost {
	if n.costAt[depth].visits > 0 { // a result has at least one visit
		return n.costAt[depth]
	}
	sum, mostExpensive := cost{}.plus(cost{1 + n.enum, n.matching}), cost{} // plus limits a large enum
	for _, m := range n.onValue {
		sum = sum.plus(m.cost(depth))
	}
	if depth > 0 {
		for _, m := range n.onChildren {
			sum = sum.plus(m.cost(depth - 1))
		}
		for _, m := range n.onOneChild {
			c := m.cost(depth - 1)
			mostExpensive = cost{max(mostExpensive.visits, c.visits), max(mostExpensive.matching, c.matching)}
		}
	}
	n.costAt[depth] = sum.plus(mostExpensive)
	return n.costAt[depth]
}
