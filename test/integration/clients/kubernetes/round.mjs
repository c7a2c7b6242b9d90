// The client from npm: a deployment's life, as programs that use it do it. Prints what it saw as JSON.
import { Writable } from "node:stream";
import { AppsV1Api, CoreV1Api, Exec, KubeConfig, VersionApi, Watch } from "@kubernetes/client-node";

const config = new KubeConfig();
config.loadFromFile(process.argv[2]);
const [core, apps] = [config.makeApiClient(CoreV1Api), config.makeApiClient(AppsV1Api)];
const namespace = "from-npm";
const labels = { app: "web" };
const container = {
  name: "web",
  image: "gpve.local/busybox:1",
  command: ["sh", "-c", "echo hello from a pod; exec sleep 1000000"],
};
const seen = { version: (await config.makeApiClient(VersionApi).getCode()).gitVersion };

await core.createNamespace({ body: { metadata: { name: namespace } } });
await apps.createNamespacedDeployment({
  namespace,
  body: {
    metadata: { name: "web" },
    spec: {
      replicas: 1,
      selector: { matchLabels: labels },
      template: {
        metadata: { labels },
        spec: { terminationGracePeriodSeconds: 0, containers: [container] },
      },
    },
  },
});
seen.available = await new Promise((resolve, reject) => {
  const path = `/apis/apps/v1/namespaces/${namespace}/deployments`;
  const looking = new Watch(config).watch(
    path,
    {},
    (_type, { status }) => {
      if (status?.availableReplicas !== 1) return;
      resolve(true);
      looking.then((controller) => controller.abort());
    },
    (err) => reject(err ?? new Error("the watch ended")),
  );
});
const { items } = await core.listNamespacedPod({ namespace, labelSelector: "app=web" });
const [pod] = items;
seen.phase = pod.status.phase;
seen.log = await core.readNamespacedPodLog({ name: pod.metadata.name, namespace });
seen.exec = "";
const out = new Writable({
  write(chunk, _encoding, done) {
    seen.exec += chunk;
    done();
  },
});
await new Promise((resolve, reject) => {
  new Exec(config)
    .exec(namespace, pod.metadata.name, "web", ["echo", "told by exec"], out, null, null, false, resolve)
    .catch(reject);
});
const scale = await apps.readNamespacedDeploymentScale({ name: "web", namespace });
const none = { ...scale, spec: { replicas: 0 } };
seen.scale =
  (await apps.replaceNamespacedDeploymentScale({ name: "web", namespace, body: none })).spec.replicas ?? 0;
const evil = { metadata: { name: "evil" }, spec: { hostPID: true, containers: [container] } };
await core.createNamespacedPod({ namespace, body: evil }).catch((refused) => {
  const { message } = typeof refused.body === "string" ? JSON.parse(refused.body) : refused.body;
  seen.refused = [refused.code, message];
});
await core.deleteNamespace({ name: namespace });
console.log(JSON.stringify(seen));
