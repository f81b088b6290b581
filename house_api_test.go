package aether_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestNoInternalTypeInTheAPI holds that whoever may import a package may also name
// what its exported declarations are made of: an option or a result of a type below
// internal/ could be neither written nor implemented outside of this module.
func TestNoInternalTypeInTheAPI(t *testing.T) {
	looked := 0
	eachFile(t, func(name string, file *ast.File, at *token.FileSet) {
		if !isAPI(name, file) {
			return
		}
		looked++
		hidden := internalImports(file)
		for _, decl := range file.Decls {
			for _, part := range exportedParts(decl) {
				ast.Inspect(part, func(n ast.Node) bool {
					if to, ok := selectorOf(n, hidden); ok {
						t.Errorf("%s: an exported declaration mentions %s, which nobody outside can name", at.Position(n.Pos()), to)
					}
					return true
				})
			}
		}
	})
	if looked == 0 {
		t.Fatal("no package has an API")
	}
}

// TestContractsHaveNames holds that what is asked of a value by type assertion is
// an interface with a name and a comment, so that others can implement it, wrap it
// and be checked against it at compile time.
func TestContractsHaveNames(t *testing.T) {
	eachFile(t, func(name string, file *ast.File, at *token.FileSet) {
		if strings.HasSuffix(name, "_test.go") || ast.IsGenerated(file) {
			return
		}
		ast.Inspect(file, func(n ast.Node) bool {
			assertion, ok := n.(*ast.TypeAssertExpr)
			if !ok {
				return true
			}
			if wanted, ok := assertion.Type.(*ast.InterfaceType); ok && wanted.Methods.NumFields() > 0 {
				t.Errorf("%s: a contract without a name; declare it in the package that owns its types", at.Position(n.Pos()))
			}
			return true
		})
	})
}

// TestExportedParts tries what TestNoInternalTypeInTheAPI looks with on
// declarations that it would refuse and on such that it would not.
func TestExportedParts(t *testing.T) {
	for source, want := range map[string]bool{
		"func F(hidden.T) {}":                    true,
		"func F() (*hidden.T, error) { return }": true,
		"func F[X hidden.T]() {}":                true,
		"func (X) M([]hidden.T) {}":              true,
		"type T struct{ F map[string]hidden.T }": true,
		"type T struct{ hidden.T }":              true,
		"type T interface{ M() hidden.T }":       true,
		"type T = hidden.T":                      true,
		"type T hidden.T":                        true,
		"var V = hidden.T{}":                     true,
		"var V hidden.T":                         true,
		"func f(hidden.T) {}":                    false,
		"func F() { hidden.Do() }":               false,
		"func (x) M(hidden.T) {}":                false,
		"type T struct{ f hidden.T }":            false,
		"type t struct{ F hidden.T }":            false,
		"type T interface{ m() hidden.T }":       false,
		"type T struct{ F seen.T }":              false,
		"const C = hidden.C":                     false,
	} {
		text := "package p\nimport \"aether/internal/hidden\"\nimport \"aether/seen\"\n" + source
		file, err := parser.ParseFile(token.NewFileSet(), "p.go", text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, part := range exportedParts(file.Decls[len(file.Decls)-1]) {
			ast.Inspect(part, func(n ast.Node) bool {
				_, ok := selectorOf(n, internalImports(file))
				found = found || ok
				return true
			})
		}
		if found != want {
			t.Errorf("%s: found %v, want %v", source, found, want)
		}
	}
}

// isAPI tells files of packages that somebody else may import. Packages for tests
// are API too: a driver from outside is held to drivertest.
func isAPI(name string, file *ast.File) bool {
	dir := path.Dir(filepath.ToSlash(name))
	return dir != "." && file.Name.Name != "main" && roomOf(dir) != nil && !strings.HasPrefix(dir, "internal/") && !strings.HasSuffix(name, "_test.go")
}

// internalImports are the names by which a file refers to packages below internal/.
func internalImports(file *ast.File) map[string]string {
	names := map[string]string{}
	for _, spec := range file.Imports {
		to, err := strconv.Unquote(spec.Path.Value)
		if err != nil || !strings.HasPrefix(to, "aether/internal/") {
			continue
		}
		name := path.Base(to)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = to
	}
	return names
}

func selectorOf(n ast.Node, names map[string]string) (string, bool) {
	selector, ok := n.(*ast.SelectorExpr)
	if !ok {
		return "", false
	}
	from, ok := selector.X.(*ast.Ident)
	if !ok || names[from.Name] == "" {
		return "", false
	}
	return names[from.Name] + "." + selector.Sel.Name, true
}

// exportedParts are what a user of a declaration has to name: not bodies, and not
// fields and methods that are no one else's.
func exportedParts(decl ast.Decl) (parts []ast.Node) {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && (d.Recv == nil || receiver(d).IsExported()) {
			parts = append(parts, d.Type)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				if s.Name.IsExported() {
					parts = append(parts, typeParts(s.Type)...)
				}
			case *ast.ValueSpec:
				parts = append(parts, valueParts(d.Tok, s)...)
			}
		}
	}
	return parts
}

func receiver(d *ast.FuncDecl) *ast.Ident {
	for e := d.Recv.List[0].Type; ; {
		switch x := e.(type) {
		case *ast.Ident:
			return x
		case *ast.StarExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.IndexListExpr:
			e = x.X
		default:
			return ast.NewIdent("_")
		}
	}
}

func typeParts(e ast.Expr) (parts []ast.Node) {
	var fields *ast.FieldList
	switch x := e.(type) {
	case *ast.StructType:
		fields = x.Fields
	case *ast.InterfaceType:
		fields = x.Methods
	default:
		return []ast.Node{e}
	}
	for _, f := range fields.List {
		if len(f.Names) == 0 || anyExported(f.Names) {
			parts = append(parts, f.Type)
		}
	}
	return parts
}

// valueParts gives the type of variables, or the value that they get theirs from.
// The value of a constant names no type that matters.
func valueParts(kind token.Token, s *ast.ValueSpec) (parts []ast.Node) {
	if !anyExported(s.Names) {
		return nil
	}
	if s.Type != nil {
		return []ast.Node{s.Type}
	}
	for _, value := range s.Values {
		if _, isFunc := value.(*ast.FuncLit); kind == token.VAR && !isFunc {
			parts = append(parts, value)
		}
	}
	return parts
}

func anyExported(names []*ast.Ident) bool {
	for _, n := range names {
		if n.IsExported() {
			return true
		}
	}
	return false
}

// eachFile parses all of our files, whole.
func eachFile(t *testing.T, visit func(name string, file *ast.File, at *token.FileSet)) {
	t.Helper()
	err := walkGo(func(name string) error {
		at := token.NewFileSet()
		file, err := parser.ParseFile(at, name, nil, parser.SkipObjectResolution|parser.ParseComments)
		if err == nil {
			visit(name, file, at)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
