package jinja

// The tree of a template. Statements write to the output and set names; expressions have a value. Each knows how to run
// itself: statements in exec.go, expressions in eval.go.

type statement interface{ exec(f *frame) signal }

type expression interface{ eval(f *frame) Value }

// signal is why a list of statements ended before its end.
type signal uint8

const (
	goOn signal = iota
	breakLoop
	continueLoop
)

type block []statement

type (
	textNode  struct{ text string }
	printNode struct{ value expression }

	ifNode struct {
		tests  []expression
		bodies []block
		other  block
	}

	forNode struct {
		targets []string
		over    expression
		filter  expression // nil where there is none
		body    block
		other   block // where there is nothing to go through
	}

	// setNode sets one name, several from a sequence, or an attribute of a namespace.
	setNode struct {
		targets []string
		attr    string
		value   expression
	}

	setBlockNode struct {
		target  string
		attr    string
		body    block
		filters expression // applied to a bodyExpr; nil where there are none
	}

	macroNode struct {
		name     string
		params   []string
		defaults map[string]expression
		body     block
	}

	callBlockNode struct {
		caller *macroNode
		call   *callExpr
	}

	filterBlockNode struct {
		filters expression
		body    block
	}

	signalNode struct{ signal signal }
)

type (
	literalExpr struct{ value Value }
	nameExpr    struct{ name string }
	// bodyExpr is the rendered body that a block's filters are applied to.
	bodyExpr struct{}
	listExpr struct {
		items []expression
		tuple bool
	}
	dictExpr struct{ keys, values []expression }
	attrExpr struct {
		of   expression
		name string
	}
	itemExpr  struct{ of, key expression }
	sliceExpr struct{ of, start, stop, step expression } // the last three may be nil
	callExpr  struct {
		fn   expression
		args argExprs
	}
	filterExpr struct {
		of   expression
		name string
		fn   filter
		args argExprs
	}
	testExpr struct {
		of   expression
		fn   test
		args argExprs
	}
	unaryExpr struct {
		op string
		of expression
	}
	binaryExpr struct {
		op          string
		left, right expression
	}
	// compareExpr is a chain such as a < b <= c.
	compareExpr struct {
		first expression
		ops   []string
		rest  []expression
	}
	condExpr struct{ yes, test, no expression } // no may be nil
)

type argExprs struct {
	positional []expression
	names      []string
	named      []expression
}
