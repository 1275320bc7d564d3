// Run the controllers of JobSet without its webhooks, which would want certificates and a Service.
package main

import (
	"flag"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metrics "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	"sigs.k8s.io/jobset/pkg/controllers"
)

func main() {
	probes := flag.String("health-probe-bind-address", "", "where to answer /healthz")
	flag.Parse() // with --kubeconfig, which controller-runtime adds
	ctrl.SetLogger(zap.New())
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(jobset.AddToScheme(scheme))
	manager, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		Scheme:                 scheme,
		Metrics:                metrics.Options{BindAddress: "0"},
		HealthProbeBindAddress: *probes,
	})
	must(err)
	must(manager.AddHealthzCheck("healthz", healthz.Ping))
	ctx := ctrl.SetupSignalHandler()
	must(controllers.SetupJobSetIndexes(ctx, manager.GetFieldIndexer()))
	recorder := manager.GetEventRecorderFor("jobset")
	must(controllers.NewJobSetReconciler(manager.GetClient(), scheme, recorder).SetupWithManager(manager))
	must(manager.Start(ctx))
}

func must(err error) {
	if err != nil {
		ctrl.Log.Error(err, "cannot run")
		os.Exit(1)
	}
}
