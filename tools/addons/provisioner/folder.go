package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

// selectedNode is the annotation by which the scheduler says on which node the first pod of a claim will run.
const selectedNode = "volume.kubernetes.io/selected-node"

// ownNode is the annotation of a volume made here that says on which node its folder is.
const ownNode = "echoperator/node"

// folderProvisioner makes and removes the volumes of one node: a folder each, below one root, named after the volume.
type folderProvisioner struct {
	nodeName string
	root     string
}

var (
	_ controller.Provisioner   = (*folderProvisioner)(nil)
	_ controller.Qualifier     = (*folderProvisioner)(nil)
	_ controller.DeletionGuard = (*folderProvisioner)(nil)
)

func newFolderProvisioner(nodeName, root string) (*folderProvisioner, error) {
	if nodeName == "" {
		return nil, errors.New("-node-name: a node's name is required")
	}
	if !filepath.IsAbs(root) {
		return nil, fmt.Errorf("-root: an absolute path is required, got %q", root)
	}
	if err := os.MkdirAll(root, 0o755); err != nil {
		return nil, fmt.Errorf("-root: %w", err)
	}
	return &folderProvisioner{nodeName: nodeName, root: filepath.Clean(root)}, nil
}

// ShouldProvision leaves a claim to the provisioner of the node that the scheduler has chosen.
func (p *folderProvisioner) ShouldProvision(_ context.Context, claim *v1.PersistentVolumeClaim) bool {
	return claim.Annotations[selectedNode] == p.nodeName
}

// ShouldDelete leaves a volume to the provisioner of the node that it is on.
func (p *folderProvisioner) ShouldDelete(_ context.Context, volume *v1.PersistentVolume) bool {
	return volume.Annotations[ownNode] == p.nodeName
}

// Provision makes the volume's folder; one that is there already was made by an attempt that did not end.
func (p *folderProvisioner) Provision(
	ctx context.Context, options controller.ProvisionOptions,
) (*v1.PersistentVolume, controller.ProvisioningState, error) {
	claim := options.PVC
	if err := checkClaim(claim); err != nil {
		return nil, controller.ProvisioningFinished, err
	}
	path := filepath.Join(p.root, options.PVName)
	if err := os.Mkdir(path, 0o777); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, controller.ProvisioningFinished, err
	}
	// Mkdir's mode is subject to the umask. The pods decide who writes: they run as users that nobody knows here.
	if err := os.Chmod(path, 0o777); err != nil {
		return nil, controller.ProvisioningFinished, err
	}
	klog.FromContext(ctx).Info("Made volume", "path", path, "claim", klog.KObj(claim))
	return &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name:        options.PVName,
			Annotations: map[string]string{ownNode: p.nodeName},
		},
		Spec: v1.PersistentVolumeSpec{
			PersistentVolumeReclaimPolicy: *options.StorageClass.ReclaimPolicy,
			AccessModes:                   claim.Spec.AccessModes,
			MountOptions:                  options.StorageClass.MountOptions,
			Capacity:                      v1.ResourceList{v1.ResourceStorage: claim.Spec.Resources.Requests[v1.ResourceStorage]},
			PersistentVolumeSource:        v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: path}},
			NodeAffinity:                  onlyOn(p.nodeName),
		},
	}, controller.ProvisioningFinished, nil
}

// Delete removes the volume's folder with all that is in it.
func (p *folderProvisioner) Delete(ctx context.Context, volume *v1.PersistentVolume) error {
	path := filepath.Join(p.root, volume.Name)
	// Anybody who may write volumes can claim that this program made one: only what it would have made is removed.
	if volume.Spec.Local == nil || volume.Spec.Local.Path != path {
		return &controller.IgnoredError{Reason: fmt.Sprintf("the volume is not the local folder %s", path)}
	}
	if err := os.RemoveAll(path); err != nil {
		return err
	}
	klog.FromContext(ctx).Info("Removed volume", "path", path)
	return nil
}

// checkClaim tells why a claim can't be met by a folder of one node.
func checkClaim(claim *v1.PersistentVolumeClaim) error {
	if claim.Spec.Selector != nil {
		return errors.New("spec.selector: a volume made for a claim has no labels to select by")
	}
	for _, mode := range claim.Spec.AccessModes {
		if mode != v1.ReadWriteOnce && mode != v1.ReadWriteOncePod {
			return fmt.Errorf("spec.accessModes: a folder of one node is %s or %s, got %s",
				v1.ReadWriteOnce, v1.ReadWriteOncePod, mode)
		}
	}
	return nil
}

func onlyOn(nodeName string) *v1.VolumeNodeAffinity {
	return &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
		MatchExpressions: []v1.NodeSelectorRequirement{{
			Key:      v1.LabelHostname,
			Operator: v1.NodeSelectorOpIn,
			Values:   []string{nodeName},
		}},
	}}}}
}
