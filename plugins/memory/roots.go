package memory

import (
	"io/fs"
	"path"
	"slices"
	"syscall"

	"github.com/slipway-run/slipway/plugins/memory/internal/tree"
)

// emptyRoot is the root of a container without an image.
func emptyRoot(budget *tree.Budget) (*tree.Tree, error) {
	root, err := tree.New(budget, tree.Options{})
	if err != nil {
		return nil, err
	}
	files, err := alone(root)
	if err == nil {
		err = files.Mkdir(volumeRoot, "dev", 0o755)
	}
	if err == nil {
		err = files.Mkdir(volumeRoot, "tmp", 0o777|fs.ModeSticky)
	}
	if err != nil {
		root.Release()
		return nil, err
	}
	return root, nil
}

// imageRoot is a copy of what an image has below rootfs. It takes time by the number of names right below, not by what is
// in them.
func imageRoot(image *tree.Tree) (*tree.Tree, error) {
	root := image.Clone()
	if err := promote(root, "rootfs"); err != nil {
		root.Release()
		return nil, err
	}
	return root, nil
}

// promote makes the directory dir of a tree the tree's root and removes everything else.
func promote(t *tree.Tree, dir string) error {
	files, err := alone(t)
	if err != nil {
		return err
	}
	info, err := files.Lstat(volumeRoot, dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return syscall.ENOTDIR
	}
	children, err := files.ReadDir(volumeRoot, dir)
	if err != nil {
		return err
	}
	others, err := files.ReadDir("/", volumeRoot)
	if err != nil {
		return err
	}
	for _, e := range others {
		if e.Name() == dir {
			continue
		}
		if err := files.RemoveAll(volumeRoot, e.Name()); err != nil {
			return err
		}
	}
	staged := dir // under a name that none of its children has
	for slices.ContainsFunc(children, func(e fs.DirEntry) bool { return e.Name() == staged }) {
		staged += "_"
	}
	if err := files.Rename(volumeRoot, dir, staged); err != nil {
		return err
	}
	for _, e := range children {
		if err := files.Rename(volumeRoot, path.Join(staged, e.Name()), e.Name()); err != nil {
			return err
		}
	}
	if err := files.Remove(volumeRoot, staged); err != nil {
		return err
	}
	uid, gid := owner(info)
	if err := files.Chown("/", volumeRoot, int(uid), int(gid)); err != nil {
		return err
	}
	if err := files.Chmod("/", volumeRoot, info.Mode()); err != nil {
		return err
	}
	return files.Chtimes("/", volumeRoot, info.ModTime())
}

func chownRoot(t *tree.Tree, uid, gid int64) error {
	files, err := alone(t)
	if err != nil {
		return err
	}
	return files.Chown("/", volumeRoot, int(uid), int(gid))
}

// volumeRoot is where alone shows a tree.
const volumeRoot = "/volume"

// alone is a namespace to change a tree through. The tree is not its root, for a namespace adds things there.
func alone(t *tree.Tree) (*tree.Namespace, error) {
	root, err := tree.New(tree.NewBudget(0), tree.Options{})
	if err != nil {
		return nil, err
	}
	return tree.NewNamespace(root, []tree.Mount{{Path: volumeRoot, Tree: t}}, tree.NamespaceOptions{})
}
