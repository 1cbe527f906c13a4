package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/bulkhead-llm/bulkhead/trust"
)

// certsCmd makes what --tls-dir wants, for a start without an authority of one's own.
type certsCmd struct {
	Nodes []string `arg:"" name:"node" help:"ROLE/NAME or ROLE/NAME@HOST,HOST…: role is gateway, prefill, decode or operator; hosts are DNS names and IP addresses for clients that check those (default: localhost, 127.0.0.1, ::1)."`
	Out   string   `required:"" help:"Directory: ca/ in it holds the authority and is made if it is not there, NAME/ is what a node gets as --tls-dir. Nothing is overwritten." placeholder:"DIR"`
	Days  int      `default:"365" help:"Days until the nodes' certificates end, 1 to 3650."`
	JSON  bool     `help:"Print JSON."`
}

// certified is one directory that certs has made.
type certified struct {
	Dir      string     `json:"dir"`
	Role     trust.Role `json:"role,omitempty"`
	Name     string     `json:"name,omitempty"`
	Hosts    []string   `json:"hosts,omitempty"`
	NotAfter time.Time  `json:"not_after"`
	New      bool       `json:"new"`
}

// loopbackHosts are what a certificate is for where no host is named.
var loopbackHosts = []string{"localhost", "127.0.0.1", "::1"}

// Run checks everything before it writes anything.
func (c *certsCmd) Run(s *streams) error {
	if c.Days < 1 || c.Days > 3650 {
		return refused{fmt.Errorf("--days %d: must be 1 to 3650", c.Days)}
	}
	now := time.Now().UTC().Truncate(time.Second)
	grants, err := c.grants(now)
	if err != nil {
		return refused{err}
	}
	authority, made, err := c.authority(now)
	if err != nil {
		return refused{err}
	}
	if end := authority.NotAfter(); grants[0].NotAfter.After(end) {
		return refused{fmt.Errorf("--days %d: the authority in %s ends at %s; ask for fewer days, or make a new authority in another directory",
			c.Days, made.Dir, end.Format(time.DateOnly))}
	}
	if made.New {
		if err := authority.Save(made.Dir); err != nil {
			return err
		}
	}
	list := []certified{made}
	for _, g := range grants {
		dir := filepath.Join(c.Out, g.Name)
		if err := authority.Issue(dir, g); err != nil {
			return err
		}
		list = append(list, certified{Dir: dir, Role: g.Role, Name: g.Name, Hosts: g.Hosts, NotAfter: g.NotAfter, New: true})
	}
	if c.JSON {
		return json.NewEncoder(s.out).Encode(list)
	}
	return printCertified(s.out, list)
}

// grants reads the nodes, and refuses those that are there.
func (c *certsCmd) grants(now time.Time) ([]trust.Grant, error) {
	var grants []trust.Grant
	seen := map[string]bool{"ca": true}
	for _, text := range c.Nodes {
		g, err := parseGrant(text)
		if err != nil {
			return nil, fmt.Errorf("node %q: %w", text, err)
		}
		if seen[g.Name] {
			return nil, fmt.Errorf("node %q: the name %s is taken: each node has a name and a directory of its own", text, g.Name)
		}
		seen[g.Name] = true
		if dir := filepath.Join(c.Out, g.Name); exists(dir) {
			return nil, fmt.Errorf("node %q: %s is there already, and nothing is overwritten: move it away to have it made anew", text, dir)
		}
		g.NotBefore, g.NotAfter = now.Add(-time.Hour), now.AddDate(0, 0, c.Days) // an hour for clocks that are behind
		grants = append(grants, g)
	}
	return grants, nil
}

// parseGrant reads ROLE/NAME[@HOST,HOST...].
func parseGrant(text string) (trust.Grant, error) {
	who, hosts, named := strings.Cut(text, "@")
	role, name, ok := strings.Cut(who, "/")
	if !ok {
		return trust.Grant{}, errors.New("write ROLE/NAME or ROLE/NAME@HOST,HOST, as in prefill/p1@10.0.0.5")
	}
	g := trust.Grant{Subject: trust.Subject{Role: trust.Role(role), Name: name}, Hosts: loopbackHosts}
	if named {
		g.Hosts = strings.Split(hosts, ",")
	}
	return g, g.Check()
}

// authority loads the one that is there, or makes one that is not saved yet.
func (c *certsCmd) authority(now time.Time) (*trust.Authority, certified, error) {
	made := certified{Dir: filepath.Join(c.Out, "ca"), New: true}
	var a *trust.Authority
	var err error
	if exists(made.Dir) {
		made.New = false
		a, err = trust.LoadAuthority(made.Dir)
	} else {
		a, err = trust.NewAuthority(now)
	}
	if err != nil {
		return nil, made, err
	}
	made.NotAfter = a.NotAfter()
	return a, made, nil
}

// exists says that something is at path. What cannot be looked at cannot be written either, and that says why.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func printCertified(out io.Writer, list []certified) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, c := range list {
		var what string
		switch {
		case c.Role != "":
			what = fmt.Sprintf("%s %s for %s", c.Role, c.Name, strings.Join(c.Hosts, ", "))
		case c.New:
			what = "new authority; keep its directory where no worker runs"
		default:
			what = "authority"
		}
		fmt.Fprintf(w, "%s\tuntil %s\t%s\n", c.Dir, c.NotAfter.Format(time.DateOnly), what)
	}
	return w.Flush()
}
