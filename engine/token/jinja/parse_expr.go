package jinja

import (
	"slices"
	"strconv"
)

// Expressions, from the loosest binding to the tightest, as jinja2's own parser goes: if-else, or, and, not, comparison,
// sum, ~, product, power, sign, and then attributes, calls, filters and tests.

// tuple reads one expression, or several with commas between, which make a tuple. Where a trailing "if" belongs to the
// tag round it, conditions are not read.
func (p *parser) tuple(conditions bool) expression {
	read := p.or
	if conditions {
		read = p.expression
	}
	first := read()
	if !p.isOp(",") {
		return first
	}
	t := &listExpr{items: []expression{first}, tuple: true}
	for p.takeOp(",") {
		if k := p.peek().kind; k == tokPrintEnd || k == tokBlockEnd || p.isOp("=", ")") {
			break
		}
		t.items = append(t.items, read())
	}
	return t
}

func (p *parser) expression() expression {
	p.enter()
	defer p.leave()
	value := p.or()
	for p.takeName("if") {
		n := &condExpr{yes: value, test: p.or()}
		if p.takeName("else") {
			n.no = p.expression()
		}
		value = n
	}
	return value
}

// leftFirst reads operands with operators of one strength between them.
func (p *parser) leftFirst(operand func() expression, is func() (string, bool)) expression {
	left := operand()
	for n := 0; ; n++ {
		op, ok := is()
		if !ok {
			return left
		}
		p.long(n)
		p.at++
		left = &binaryExpr{op, left, operand()}
	}
}

// long limits chains, which are as deep a tree as nesting is.
func (p *parser) long(n int) {
	if n > nestingLimit {
		p.fail("an expression has more than %d links", nestingLimit)
	}
}

func (p *parser) ops(ops ...string) func() (string, bool) {
	return func() (string, bool) { return p.peek().text, p.isOp(ops...) }
}

func (p *parser) or() expression {
	return p.leftFirst(p.and, func() (string, bool) { return "or", p.isName("or") })
}

func (p *parser) and() expression {
	return p.leftFirst(p.not, func() (string, bool) { return "and", p.isName("and") })
}

func (p *parser) not() expression {
	if p.isName("not") {
		p.enter()
		defer p.leave()
		p.at++
		return &unaryExpr{"not", p.not()}
	}
	return p.comparison()
}

func (p *parser) comparison() expression {
	first := p.sum()
	n := &compareExpr{first: first}
	for {
		op := p.peek().text
		switch {
		case p.isOp("==", "!=", "<", "<=", ">", ">="), p.isName("in"):
			p.at++
		case p.isName("not") && p.tokens[p.at+1].kind == tokName && p.tokens[p.at+1].text == "in":
			op = "not in"
			p.at += 2
		case len(n.ops) == 0:
			return first
		default:
			return n
		}
		n.ops = append(n.ops, op)
		n.rest = append(n.rest, p.sum())
	}
}

func (p *parser) sum() expression   { return p.leftFirst(p.tilde, p.ops("+", "-")) }
func (p *parser) tilde() expression { return p.leftFirst(p.product, p.ops("~")) }
func (p *parser) product() expression {
	return p.leftFirst(p.power, p.ops("*", "/", "//", "%"))
}
func (p *parser) power() expression {
	return p.leftFirst(func() expression { return p.unary(true) }, p.ops("**"))
}

func (p *parser) unary(filters bool) expression {
	var value expression
	if p.isOp("-", "+") {
		p.enter()
		op := p.next().text
		value = &unaryExpr{op, p.unary(false)}
		p.leave()
	} else {
		value = p.primary()
	}
	value = p.postfix(value)
	if filters {
		value = p.filters(value, false)
	}
	return value
}

func (p *parser) primary() expression {
	p.enter()
	defer p.leave()
	switch t := p.peek(); t.kind {
	case tokName:
		p.at++
		return nameOrLiteral(t.text)
	case tokString:
		text := ""
		for p.peek().kind == tokString {
			text += p.next().text
		}
		return &literalExpr{Own(text)}
	case tokInt:
		n, err := strconv.ParseInt(t.text, 10, 64)
		if err != nil {
			p.fail("the number %s is too large", t.text)
		}
		p.at++
		return &literalExpr{Int{n: n}}
	case tokFloat:
		f, err := strconv.ParseFloat(t.text, 64)
		if err != nil {
			p.fail("the number %s is too large", t.text)
		}
		p.at++
		return &literalExpr{Float{f: f}}
	}
	switch {
	case p.takeOp("("):
		if p.takeOp(")") {
			return &listExpr{tuple: true}
		}
		value := p.tuple(true)
		p.needOp(")")
		return value
	case p.takeOp("["):
		return &listExpr{items: p.items("]")}
	case p.takeOp("{"):
		return p.dict()
	}
	p.fail("expected a value, found %s", p.found())
	return nil
}

func nameOrLiteral(name string) expression {
	switch name {
	case "true", "True":
		return &literalExpr{Bool{v: true}}
	case "false", "False":
		return &literalExpr{Bool{v: false}}
	case "none", "None":
		return &literalExpr{nil}
	}
	return &nameExpr{name}
}

func (p *parser) items(end string) (items []expression) {
	for !p.takeOp(end) {
		if len(items) > 0 {
			p.needOp(",")
			if p.takeOp(end) {
				break
			}
		}
		items = append(items, p.expression())
	}
	return items
}

func (p *parser) dict() expression {
	d := &dictExpr{}
	for !p.takeOp("}") {
		if len(d.keys) > 0 {
			p.needOp(",")
			if p.takeOp("}") {
				break
			}
		}
		d.keys = append(d.keys, p.expression())
		p.needOp(":")
		d.values = append(d.values, p.expression())
	}
	return d
}

// postfix reads attributes, subscripts and calls.
func (p *parser) postfix(value expression) expression {
	for n := 0; ; n++ {
		p.long(n)
		switch {
		case p.takeOp("."):
			if t := p.peek(); t.kind == tokInt {
				p.at++
				i, _ := strconv.ParseInt(t.text, 10, 64)
				value = &itemExpr{value, &literalExpr{Int{n: i}}}
				continue
			}
			value = &attrExpr{value, p.needName()}
		case p.takeOp("["):
			value = p.subscript(value)
		case p.takeOp("("):
			value = &callExpr{value, p.args()}
		default:
			return value
		}
	}
}

func (p *parser) subscript(of expression) expression {
	var parts [3]expression
	n := 0
	for !p.takeOp("]") {
		switch {
		case p.takeOp(":"):
			if n++; n > 2 {
				p.fail("a slice has three parts")
			}
		case parts[n] != nil:
			p.fail("expected \"]\", found %s", p.found())
		default:
			parts[n] = p.tuple(true)
		}
	}
	if n > 0 {
		return &sliceExpr{of, parts[0], parts[1], parts[2]}
	}
	if parts[0] == nil {
		p.fail("a subscript is empty")
	}
	return &itemExpr{of, parts[0]}
}

// args reads the arguments of a call from behind its bracket.
func (p *parser) args() (a argExprs) {
	for first := true; !p.takeOp(")"); first = false {
		if !first {
			p.needOp(",")
			if p.takeOp(")") {
				break
			}
		}
		if next := p.tokens[min(p.at+1, len(p.tokens)-1)]; p.peek().kind == tokName && next.kind == tokOp && next.text == "=" {
			a.names = append(a.names, p.next().text)
			p.at++
			a.named = append(a.named, p.expression())
			continue
		}
		if len(a.names) > 0 {
			p.fail("a positional argument follows a named one")
		}
		a.positional = append(a.positional, p.expression())
	}
	return a
}

// filters reads what follows a value: filters, tests and calls of what they give. With bare, the first filter has no bar
// before it, as in a filter tag.
func (p *parser) filters(value expression, bare bool) expression {
	for n := 0; ; n++ {
		p.long(n)
		switch {
		case bare || p.takeOp("|"):
			bare = false
			f := &filterExpr{of: value, name: p.needName()}
			if f.fn = filters[f.name]; f.fn == nil {
				p.fail("there is no filter %q", f.name)
			}
			if p.takeOp("(") {
				f.args = p.args()
			}
			value = f
		case p.takeName("is"):
			value = p.test(value)
		case p.takeOp("("):
			value = &callExpr{value, p.args()}
		default:
			return value
		}
	}
}

// test reads what follows "is". Its argument may stand without brackets.
func (p *parser) test(of expression) expression {
	negated := p.takeName("not")
	n := &testExpr{of: of}
	name := p.needName()
	if n.fn = tests[name]; n.fn == nil {
		p.fail("there is no test %q", name)
	}
	switch t := p.peek(); {
	case p.takeOp("("):
		n.args = p.args()
	case t.kind == tokString || t.kind == tokInt || t.kind == tokFloat || p.isOp("[", "{") ||
		t.kind == tokName && !slices.Contains([]string{"else", "or", "and", "if", "is", "in", "not", "recursive"}, t.text):
		n.args.positional = []expression{p.postfix(p.primary())}
	}
	if negated {
		return &unaryExpr{"not", n}
	}
	return n
}
