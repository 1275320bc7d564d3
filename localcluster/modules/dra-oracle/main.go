// Answer questions about Dynamic Resource Allocation as kube-scheduler would: with its allocator and its CEL.
//
// One JSON document a line comes in, one goes out. See tests/devices/oracle.py for what they contain.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"
)

// Those that are on by default in Kubernetes 1.37.
var features = structured.Features{
	AdminAccess:            true,
	ConsumableCapacity:     true,
	DeviceBindingAndStatus: true,
	DeviceTaints:           true,
	PartitionableDevices:   true,
	PrioritizedList:        true,
}

// The search is exponential; kube-scheduler gives it ten seconds a node.
const patience = 300 * time.Millisecond

type question struct {
	// For which devices of one driver does an expression hold?
	Expression string               `json:"expression"`
	Driver     string               `json:"driver"`
	Devices    []resourceapi.Device `json:"devices"`

	// What do claims get on a node?
	Node      *corev1.Node                 `json:"node"`
	Slices    []*resourceapi.ResourceSlice `json:"slices"`
	Classes   []*resourceapi.DeviceClass   `json:"classes"`
	Allocated []*resourceapi.ResourceClaim `json:"allocated"`
	Claims    []*resourceapi.ResourceClaim `json:"claims"`
}

type answer struct {
	CompileError string                         `json:"compileError,omitempty"`
	Matches      []any                          `json:"matches,omitempty"` // a bool, or the text of an error
	Allocations  []resourceapi.AllocationResult `json:"allocations,omitempty"`
	OnNode       string                         `json:"onNode,omitempty"` // why not on this node
	Error        string                         `json:"error,omitempty"`  // why nowhere
	GaveUp       bool                           `json:"gaveUp,omitempty"`
}

type classes map[string]*resourceapi.DeviceClass

func (c classes) List() ([]*resourceapi.DeviceClass, error) { return nil, errors.New("not asked for") }

func (c classes) Get(name string) (*resourceapi.DeviceClass, error) {
	if class, ok := c[name]; ok {
		return class, nil
	}
	return nil, fmt.Errorf("no class %s", name)
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)
	out := json.NewEncoder(os.Stdout)
	cache := cel.NewCache(1000, cel.Features{EnableConsumableCapacity: true})
	for lines.Scan() {
		var asked question
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			fail(err)
		}
		told := answer{}
		if asked.Node == nil {
			told = match(&asked, cache)
		} else {
			told = allocate(&asked, cache)
		}
		if err := out.Encode(told); err != nil {
			fail(err)
		}
	}
	if err := lines.Err(); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func match(asked *question, cache *cel.Cache) answer {
	compiled := cache.GetOrCompile(asked.Expression)
	if compiled.Error != nil {
		return answer{CompileError: compiled.Error.Error()}
	}
	told := answer{}
	for _, device := range asked.Devices {
		matches, _, err := compiled.DeviceMatches(context.Background(), cel.Device{
			Driver:                   asked.Driver,
			AllowMultipleAllocations: device.AllowMultipleAllocations,
			Attributes:               device.Attributes,
			Capacity:                 device.Capacity,
		})
		if err != nil {
			told.Matches = append(told.Matches, err.Error())
		} else {
			told.Matches = append(told.Matches, matches)
		}
	}
	return told
}

// inUse collects what claims have, as kube-scheduler's dynamicresources plugin does.
func inUse(claims []*resourceapi.ResourceClaim) structured.AllocatedState {
	state := structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
	for number, claim := range claims {
		for index, result := range claim.Status.Allocation.Devices.Results {
			if ptr.Deref(result.AdminAccess, false) {
				continue
			}
			id := structured.MakeDeviceID(result.Driver, result.Pool, result.Device)
			if result.ShareID == nil {
				state.AllocatedDevices.Insert(id)
				continue
			}
			share := types.UID(fmt.Sprintf("%d-%d", number, index))
			state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, &share))
			if result.ConsumedCapacity != nil {
				consumed := make(map[resourceapi.QualifiedName]resource.Quantity)
				for name, quantity := range result.ConsumedCapacity {
					consumed[name] = quantity
				}
				state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, consumed))
			}
		}
	}
	return state
}

func allocate(asked *question, cache *cel.Cache) answer {
	known := classes{}
	for _, class := range asked.Classes {
		known[class.Name] = class
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	allocator, err := structured.NewAllocator(ctx, features, inUse(asked.Allocated), known, asked.Slices, cache)
	if err != nil {
		return answer{Error: err.Error()}
	}
	results, err := allocator.Allocate(ctx, asked.Node, asked.Claims)
	switch {
	case ctx.Err() != nil:
		return answer{GaveUp: true}
	case errors.Is(err, structured.ErrFailedAllocationOnNode):
		return answer{OnNode: err.Error()}
	case err != nil:
		return answer{Error: err.Error()}
	case len(results) != len(asked.Claims):
		return answer{OnNode: "cannot allocate all claims"}
	}
	return answer{Allocations: results}
}
