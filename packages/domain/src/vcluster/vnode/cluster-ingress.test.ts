import { describe, expect, test } from "vitest";
import { clusterIngress } from "./cluster-ingress.ts";
import { IMAGES } from "./images.ts";

const objects = clusterIngress(IMAGES.traefik);
const bodyOf = (kind: string) => objects.find(({ body }) => body["kind"] === kind)?.body;

describe("the controller for Ingresses", () => {
  test("is of an image that its workers have, and is nobody's root", () => {
    const text = JSON.stringify(bodyOf("Deployment"));
    expect(text).toContain(`"image":"${IMAGES.traefik}"`);
    expect(text).toContain('"runAsNonRoot":true');
    expect(text).toContain('"drop":["ALL"]');
  });

  test("is the class that Ingresses have that name none, at the address of the Service it tells them", () => {
    expect(bodyOf("IngressClass")).toMatchObject({
      metadata: { annotations: { "ingressclass.kubernetes.io/is-default-class": "true" } },
      spec: { controller: "traefik.io/ingress-controller" },
    });
    const service = bodyOf("Service");
    expect(service).toMatchObject({ spec: { type: "LoadBalancer" } });
    const { name, namespace } = service?.metadata ?? { name: "" };
    expect(JSON.stringify(bodyOf("Deployment"))).toContain(`publishedService=${String(namespace)}/${name}`);
  });

  test("reads what it serves, and changes nothing but what Ingresses say of themselves", () => {
    const { rules } = bodyOf("ClusterRole") as unknown as {
      rules: { resources: string[]; verbs: string[] }[];
    };
    const changing = rules.filter(({ verbs }) =>
      verbs.some((verb) => !["get", "list", "watch"].includes(verb)),
    );
    expect(changing).toEqual([
      expect.objectContaining({ resources: ["ingresses/status"], verbs: ["update"] }),
    ]);
    const role = bodyOf("ClusterRole")?.metadata.name;
    expect(bodyOf("ClusterRoleBinding")).toMatchObject({ roleRef: { name: role } });
  });
});
