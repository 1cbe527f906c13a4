package jinja

import (
	"slices"
	"strings"
)

// Template is a parsed template. It may be rendered by many goroutines at once.
type Template struct{ body block }

// Parse compiles a template. The error is an *Error.
func Parse(src string) (t *Template, err error) {
	defer catch(&err)
	if len(src) > SourceBytes {
		fail("the template has %d bytes, more than %d", len(src), SourceBytes)
	}
	p := &parser{tokens: lex(src)}
	body := p.block()
	if p.peek().kind != tokEOF {
		p.fail("unexpected %s", p.tag())
	}
	return &Template{body}, nil
}

type parser struct {
	tokens []token
	at     int
	depth  int
	loops  int // open loops, in which break and continue are
}

func (p *parser) peek() token { return p.tokens[p.at] }

func (p *parser) next() token {
	t := p.tokens[p.at]
	if t.kind != tokEOF {
		p.at++
	}
	return t
}

func (p *parser) fail(format string, args ...any) { failAt(p.peek().line, format, args...) }

func (p *parser) enter() {
	if p.depth++; p.depth > nestingLimit {
		p.fail("nested more than %d deep", nestingLimit)
	}
}

func (p *parser) leave() { p.depth-- }

// isOp says that an operator comes.
func (p *parser) isOp(ops ...string) bool {
	return p.peek().kind == tokOp && slices.Contains(ops, p.peek().text)
}

func (p *parser) takeOp(op string) bool {
	if p.isOp(op) {
		p.at++
		return true
	}
	return false
}

func (p *parser) needOp(op string) {
	if !p.takeOp(op) {
		p.fail("expected %q, found %s", op, p.found())
	}
}

func (p *parser) isName(names ...string) bool {
	return p.peek().kind == tokName && slices.Contains(names, p.peek().text)
}

func (p *parser) takeName(name string) bool {
	if p.isName(name) {
		p.at++
		return true
	}
	return false
}

func (p *parser) needName() string {
	if p.peek().kind != tokName {
		p.fail("expected a name, found %s", p.found())
	}
	return p.next().text
}

func (p *parser) need(kind tokenKind, what string) {
	if p.peek().kind != kind {
		p.fail("expected %s, found %s", what, p.found())
	}
	p.at++
}

func (p *parser) found() string {
	switch t := p.peek(); t.kind {
	case tokEOF:
		return "the end of the template"
	case tokText:
		return "text"
	case tokPrint, tokPrintEnd, tokBlock, tokBlockEnd:
		return "the start or end of a tag"
	default:
		return "\"" + t.text + "\""
	}
}

// tag is the name of the block tag that comes, where one comes.
func (p *parser) tag() string {
	if p.peek().kind == tokBlock && p.at+1 < len(p.tokens) && p.tokens[p.at+1].kind == tokName {
		return p.tokens[p.at+1].text
	}
	return ""
}

// block reads statements up to a tag that none of them begins with: the caller knows which it wants.
func (p *parser) block() block {
	p.enter()
	defer p.leave()
	var out block
	for {
		switch t := p.peek(); t.kind {
		case tokText:
			p.at++
			out = append(out, &textNode{t.text})
		case tokPrint:
			p.at++
			out = append(out, &printNode{p.tuple(true)})
			p.need(tokPrintEnd, `"}}"`)
		case tokBlock:
			tag := p.tag()
			if strings.HasPrefix(tag, "end") || tag == "else" || tag == "elif" {
				return out
			}
			p.at += 2
			out = append(out, p.statement(tag)...)
		default:
			return out
		}
	}
}

// closing reads a closing tag.
func (p *parser) closing(tag string) {
	if p.tag() != tag {
		p.fail("expected the tag %q, found %s", tag, p.found())
	}
	p.at += 2
	p.need(tokBlockEnd, `"%}"`)
}

func (p *parser) endTag() { p.need(tokBlockEnd, `"%}"`) }

// statement reads a tag from behind its name, with its body and closing tag.
func (p *parser) statement(tag string) block {
	switch tag {
	case "if":
		return block{p.ifTag()}
	case "for":
		return block{p.forTag()}
	case "set":
		return block{p.setTag()}
	case "macro":
		return block{p.macroTag()}
	case "call":
		return block{p.callTag()}
	case "filter":
		n := &filterBlockNode{filters: p.filters(&bodyExpr{}, true)}
		p.endTag()
		n.body = p.block()
		p.closing("endfilter")
		return block{n}
	case "generation": // marks an assistant's words for training
		p.endTag()
		body := p.block()
		p.closing("endgeneration")
		return body
	case "break", "continue":
		if p.loops == 0 {
			p.fail("%s outside of a loop", tag)
		}
		p.endTag()
		return block{&signalNode{map[string]signal{"break": breakLoop, "continue": continueLoop}[tag]}}
	}
	p.fail("the tag %q is not supported", tag)
	return nil
}

func (p *parser) ifTag() *ifNode {
	n := &ifNode{}
	for {
		n.tests = append(n.tests, p.tuple(false))
		p.endTag()
		n.bodies = append(n.bodies, p.block())
		tag := p.tag()
		if tag == "elif" {
			p.at += 2
			continue
		}
		if tag == "else" {
			p.at += 2
			p.endTag()
			n.other = p.block()
		}
		p.closing("endif")
		return n
	}
}

func (p *parser) names() []string {
	names := []string{p.needName()}
	for p.takeOp(",") {
		names = append(names, p.needName())
	}
	return names
}

func (p *parser) forTag() *forNode {
	n := &forNode{targets: p.names()}
	if !p.takeName("in") {
		p.fail("expected \"in\", found %s", p.found())
	}
	n.over = p.tuple(false)
	if p.takeName("if") {
		n.filter = p.expression()
	}
	if p.isName("recursive") {
		p.fail("recursive loops are not supported")
	}
	p.endTag()
	p.loops++
	n.body = p.block()
	p.loops--
	if p.tag() == "else" {
		p.at += 2
		p.endTag()
		n.other = p.block()
	}
	p.closing("endfor")
	return n
}

func (p *parser) setTag() statement {
	targets := p.names()
	attr := ""
	if len(targets) == 1 && p.takeOp(".") {
		attr = p.needName()
	}
	if p.takeOp("=") {
		n := &setNode{targets: targets, attr: attr, value: p.tuple(true)}
		p.endTag()
		return n
	}
	if len(targets) > 1 {
		p.fail("expected \"=\", found %s", p.found())
	}
	n := &setBlockNode{target: targets[0], attr: attr}
	if p.isOp("|") {
		n.filters = p.filters(&bodyExpr{}, false)
	}
	p.endTag()
	n.body = p.block()
	p.closing("endset")
	return n
}

func (p *parser) macroTag() *macroNode {
	n := &macroNode{name: p.needName()}
	p.params(n)
	p.endTag()
	p.macroBody(n, "endmacro")
	return n
}

// macroBody: a macro begins anew, so a break in it is of no loop around it.
func (p *parser) macroBody(n *macroNode, end string) {
	loops := p.loops
	p.loops = 0
	n.body = p.block()
	p.loops = loops
	p.closing(end)
}

func (p *parser) params(n *macroNode) {
	n.defaults = make(map[string]expression)
	p.needOp("(")
	for !p.takeOp(")") {
		if len(n.params) > 0 {
			p.needOp(",")
			if p.takeOp(")") {
				return
			}
		}
		name := p.needName()
		n.params = append(n.params, name)
		if p.takeOp("=") {
			n.defaults[name] = p.expression()
		}
	}
}

func (p *parser) callTag() *callBlockNode {
	caller := &macroNode{name: "caller"}
	if p.isOp("(") {
		p.params(caller)
	}
	call, ok := p.expression().(*callExpr)
	if !ok {
		p.fail("a call block needs a call")
	}
	p.endTag()
	p.macroBody(caller, "endcall")
	return &callBlockNode{caller, call}
}
