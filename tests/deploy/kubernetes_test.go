package deploy

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/workflows"
)

// The types of Temporal's Worker Controller (temporal.io/v1alpha1, release 1.8.1) and of KEDA (keda.sh/v1alpha1, 2.22),
// as far as the manifests use them: their Go modules are not published.
type (
	connection struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Spec              struct {
			HostPort string `json:"hostPort"`
		} `json:"spec"`
	}
	workerDeployment struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Spec              struct {
			Replicas                *int32                 `json:"replicas"`
			MinReadySeconds         int32                  `json:"minReadySeconds"`
			ProgressDeadlineSeconds int32                  `json:"progressDeadlineSeconds"`
			Template                corev1.PodTemplateSpec `json:"template"`
			WorkerOptions           struct {
				ConnectionRef     corev1.LocalObjectReference `json:"connectionRef"`
				TemporalNamespace string                      `json:"temporalNamespace"`
			} `json:"workerOptions"`
			Rollout struct {
				Strategy string `json:"strategy"`
				Gate     struct {
					WorkflowType string `json:"workflowType"`
				} `json:"gate"`
				Steps []struct {
					RampPercentage int             `json:"rampPercentage"`
					PauseDuration  metav1.Duration `json:"pauseDuration"`
				} `json:"steps"`
			} `json:"rollout"`
			Sunset struct {
				ScaledownDelay metav1.Duration `json:"scaledownDelay"`
				DeleteDelay    metav1.Duration `json:"deleteDelay"`
			} `json:"sunset"`
		} `json:"spec"`
	}
	workerResourceTemplate struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Spec              struct {
			WorkerDeploymentRef corev1.LocalObjectReference           `json:"workerDeploymentRef"`
			Template            autoscalingv2.HorizontalPodAutoscaler `json:"template"`
		} `json:"spec"`
	}
	scaledObject struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Spec              struct {
			ScaleTargetRef  corev1.LocalObjectReference `json:"scaleTargetRef"`
			MinReplicaCount int32                       `json:"minReplicaCount"`
			MaxReplicaCount int32                       `json:"maxReplicaCount"`
			PollingInterval int32                       `json:"pollingInterval"`
			CooldownPeriod  int32                       `json:"cooldownPeriod"`
			Triggers        []struct {
				Type     string            `json:"type"`
				Metadata map[string]string `json:"metadata"`
			} `json:"triggers"`
		} `json:"spec"`
	}
)

// manifest decodes one object of a file strictly: unknown and repeated fields are errors.
func manifest[T any](t *testing.T, file, kind string) T {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, "deploy", "kubernetes", file))
	require.NoError(t, err)
	for _, document := range documents(t, b) {
		var meta metav1.TypeMeta
		require.NoError(t, yaml.Unmarshal(document, &meta))
		if meta.Kind == kind {
			var out T
			require.NoError(t, yaml.UnmarshalStrict(document, &out), "%s, %s", file, kind)
			return out
		}
	}
	require.Fail(t, "no such object", "%s in %s", kind, file)
	panic("unreachable")
}

// documents splits a file. Kubernetes resolves the anchors of a document only in that document.
func documents(t *testing.T, b []byte) [][]byte {
	t.Helper()
	list := bytes.Split(b, []byte("\n---\n"))
	for _, document := range list {
		var any map[string]any
		require.NoError(t, yaml.Unmarshal(document, &any), "%s", document)
		require.NotEmpty(t, any)
	}
	return list
}

// pods are the pod templates of all manifests.
func pods(t *testing.T) map[string]corev1.PodTemplateSpec {
	t.Helper()
	return map[string]corev1.PodTemplateSpec{
		"Deployment":       manifest[appsv1.Deployment](t, "worker.yaml", "Deployment").Spec.Template,
		"Job":              manifest[batchv1.Job](t, "worker.yaml", "Job").Spec.Template,
		"WorkerDeployment": manifest[workerDeployment](t, "worker-controller.yaml", "WorkerDeployment").Spec.Template,
	}
}

func TestEveryManifestIsDecoded(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "deploy", "kubernetes", "*"))
	require.NoError(t, err)
	kinds := map[string]int{"keda.yaml": 1, "worker-controller.yaml": 3, "worker.yaml": 5}
	require.Len(t, files, len(kinds))
	for _, file := range files {
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		assert.Len(t, documents(t, b), kinds[filepath.Base(file)], file)
	}
}

// TestPodsAreConfined checks the restricted profile of Kubernetes's Pod Security Standards.
func TestPodsAreConfined(t *testing.T) {
	for name, pod := range pods(t) {
		spec := pod.Spec
		require.NotNil(t, spec.SecurityContext, name)
		assert.True(t, *spec.SecurityContext.RunAsNonRoot, name)
		assert.Contains(t, read(t, "Dockerfile"), "USER 65532:65532")
		assert.EqualValues(t, 65532, *spec.SecurityContext.RunAsUser, name)
		assert.Equal(t, corev1.SeccompProfileTypeRuntimeDefault, spec.SecurityContext.SeccompProfile.Type, name)
		assert.False(t, *spec.AutomountServiceAccountToken, name)
		for _, c := range spec.Containers {
			assert.False(t, *c.SecurityContext.AllowPrivilegeEscalation, name)
			assert.True(t, *c.SecurityContext.ReadOnlyRootFilesystem, name)
			assert.Equal(t, []corev1.Capability{"ALL"}, c.SecurityContext.Capabilities.Drop, name)
			assert.Equal(t, "everturn", c.EnvFrom[0].SecretRef.Name, name)
		}
	}
}

func TestWorkersAreProbedAndDrained(t *testing.T) {
	for name, pod := range pods(t) {
		if name == "Job" {
			continue
		}
		grace := time.Duration(*pod.Spec.TerminationGracePeriodSeconds) * time.Second
		assert.GreaterOrEqual(t, grace, 3*config.Default().Worker.DrainTimeout+10*time.Second, name)
		c := pod.Spec.Containers[0]
		assert.Equal(t, "/healthz", c.LivenessProbe.HTTPGet.Path, name)
		assert.Equal(t, "/readyz", c.ReadinessProbe.HTTPGet.Path, name)
		ports := map[string]int32{}
		for _, p := range c.Ports {
			ports[p.Name] = p.ContainerPort
		}
		assert.Equal(t, "health", c.LivenessProbe.HTTPGet.Port.StrVal, name)
		assert.Equal(t, "health", c.ReadinessProbe.HTTPGet.Port.StrVal, name)
		assert.Equal(t, map[string]int32{"health": 8089, "metrics": 9464}, ports, name)
		assert.Equal(t, 1, c.Resources.Limits.Memory().Cmp(resource.MustParse("100Mi")), name)
	}
}

// TestTheConfigMapIsAConfiguration loads the workers' settings with the variables of the Secret.
func TestTheConfigMapIsAConfiguration(t *testing.T) {
	file := filepath.Join(t.TempDir(), "agent.toml")
	text := manifest[corev1.ConfigMap](t, "worker.yaml", "ConfigMap").Data["agent.toml"]
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	var environ []string
	for name, value := range manifest[corev1.Secret](t, "worker.yaml", "Secret").StringData {
		environ = append(environ, name+"="+value)
	}
	for name, pod := range pods(t) {
		for _, e := range pod.Spec.Containers[0].Env {
			if !isUpcoming(strings.TrimPrefix(e.Name, "EVERTURN_")) {
				environ = append(environ, e.Name+"="+e.Value)
			}
		}
		loaded, err := config.Load(config.LoadOptions{Path: file, Environ: environ})
		require.NoError(t, err, name)
		assert.True(t, loaded.Config.Journal.Postgres())
		assert.NotEmpty(t, loaded.Config.Journal.URL.Reveal())
	}
}

func TestObjectsReferToEachOther(t *testing.T) {
	deployment := manifest[appsv1.Deployment](t, "worker.yaml", "Deployment")
	budget := manifest[policyv1.PodDisruptionBudget](t, "worker.yaml", "PodDisruptionBudget")
	assert.Equal(t, deployment.Spec.Template.Labels, budget.Spec.Selector.MatchLabels)
	assert.Equal(t, deployment.Spec.Template.Labels, deployment.Spec.Selector.MatchLabels)
	controlled := manifest[workerDeployment](t, "worker-controller.yaml", "WorkerDeployment")
	assert.Equal(t, workflows.ReadyWorkflow, controlled.Spec.Rollout.Gate.WorkflowType)
	assert.Equal(t, budget.Spec.Selector.MatchLabels, controlled.Spec.Template.Labels, "the budget is for both")
	assert.Equal(t, manifest[connection](t, "worker-controller.yaml", "Connection").Name,
		controlled.Spec.WorkerOptions.ConnectionRef.Name)
	scaled := manifest[workerResourceTemplate](t, "worker-controller.yaml", "WorkerResourceTemplate")
	assert.Equal(t, controlled.Name, scaled.Spec.WorkerDeploymentRef.Name)
	queue := config.Default().Temporal.TaskQueue
	assert.Equal(t, queue, scaled.Spec.Template.Spec.Metrics[0].External.Metric.Selector.MatchLabels["taskqueue"])
	keda := manifest[scaledObject](t, "keda.yaml", "ScaledObject")
	assert.Equal(t, deployment.Name, keda.Spec.ScaleTargetRef.Name)
	assert.Equal(t, queue, keda.Spec.Triggers[0].Metadata["taskQueue"])
}
