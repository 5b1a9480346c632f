package schema

// effort is what validating with a schema takes.
type effort struct {
	cost
	instructions int  // of all compiled patterns
	unique       bool // uniqueItems is among them: the library compares items whose hashes are equal, which the sender can bring about
}

// cost is what the schemas take that are applied on the way to one value.
type cost struct {
	visits   int // the schemas, and values of their enums
	matching int // instructions of their patterns: steps for each byte of text
}

// plus adds costs, each up to a little over its bound.
func (c cost) plus(d cost) cost {
	return cost{min(c.visits+d.visits, maxVisits+1), min(c.matching+d.matching, maxWork+1)}
}

// exceeded reports whether validating so many values, with so many bytes of text in them, may take too long.
func (e effort) exceeded(values, text int) bool {
	work := values*e.visits + text/stepsPerVisit*e.matching
	if e.unique {
		work += values * values / 16
	}
	return work > maxWork
}

// cost bounds what the schemas take that are applied on the way to any one value that is at most depth below. It stops
// counting a little over its bounds.
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
