import { describe, expect, test } from "vitest";
import { controlPlaneCommand } from "./control-plane.ts";
import { authenticationConfig, issuerPlace, readIssuer, readsIssuers } from "./issuer.ts";
import { readVirtualClusterSpec, shownVirtualClusterSpec } from "./vcluster-spec.ts";

const said = { issuerUrl: "https://login.example.com/realms/a", clientId: "kube" };
const issuer = { ...said, usernameClaim: "sub" };

describe("the issuer of a virtual cluster", () => {
  test("is read with its defaults, shown, and read again as the same", () => {
    expect(readIssuer(undefined)).toBeUndefined();
    expect(readIssuer(said)).toEqual(issuer);
    const whole = { ...issuer, groupsClaim: "groups", ca: "-----BEGIN CERTIFICATE-----\nAA\n" };
    const spec = readVirtualClusterSpec({ controlPlane: { oidc: whole } });
    expect(spec.oidc).toEqual(whole);
    expect(readVirtualClusterSpec(shownVirtualClusterSpec(spec))).toEqual(spec);
  });

  test.each([
    [[], "must say issuerUrl and clientId"],
    [{ clientId: "kube" }, "issuerUrl: must be the issuer's URL"],
    [{ ...said, issuerUrl: "http://login.example.com" }, "is not https"],
    [{ ...said, issuerUrl: "https://a:b@login.example.com" }, "without user, query and fragment"],
    [{ ...said, issuerUrl: "https://login.example.com/?a=b" }, "without user, query and fragment"],
    [{ ...said, issuerUrl: "https://[::1]:8006" }, "must be a name or an IPv4 address"],
    [{ ...said, issuerUrl: "https://127.0.0.1:8006" }, "is not an address that machines reach an issuer by"],
    [{ ...said, issuerUrl: "https://0x7f.1" }, "is not an address that machines reach an issuer by"],
    [{ ...said, issuerUrl: "https://169.254.169.254" }, "is not an address that machines reach an issuer by"],
    [{ ...said, issuerUrl: "https://100.80.0.2:6443" }, "is not an address that machines reach an issuer by"],
    [{ issuerUrl: said.issuerUrl }, "clientId: must be there"],
    [{ ...said, usernameClaim: "a b" }, "usernameClaim: must be the name of a claim"],
    [{ ...said, groupsClaim: 7 }, "groupsClaim: must be the name of a claim"],
    [{ ...said, ca: "AAAA" }, "ca: must be certificates, as PEM"],
  ])("is refused where it is %j", (bad, why) => {
    expect(() => readIssuer(bad)).toThrow(why);
  });

  test("is asked at its own port", () => {
    expect(issuerPlace(issuer)).toEqual({ host: "login.example.com", port: 443 });
    expect(issuerPlace({ ...issuer, issuerUrl: "https://10.0.0.7:9443/x" })).toEqual({
      host: "10.0.0.7",
      port: 9443,
    });
  });

  test("never vouches for names that are the cluster's own", () => {
    const config = JSON.parse(authenticationConfig({ ...issuer, groupsClaim: "groups" }, "1.36.4")) as Record<
      string,
      unknown
    >;
    expect(config).toEqual({
      apiVersion: "apiserver.config.k8s.io/v1",
      kind: "AuthenticationConfiguration",
      jwt: [
        {
          issuer: { url: said.issuerUrl, audiences: ["kube"] },
          claimMappings: {
            username: { claim: "sub", prefix: "oidc:" },
            groups: { claim: "groups", prefix: "oidc:" },
          },
        },
      ],
    });
    expect(authenticationConfig(issuer, "1.33.1")).toContain("apiserver.config.k8s.io/v1beta1");
    expect([readsIssuers("1.29.9"), readsIssuers("1.30.0")]).toEqual([false, true]);
  });

  test("is a file of the API server's alone", () => {
    const spec = readVirtualClusterSpec({});
    const place = {
      address: "100.80.0.2",
      pki: (name: string) => `/p/${name}`,
      kubeconfig: (name: string) => `/k/${name}`,
      store: { servers: ["unix:///s"] },
      authentication: "/i/authentication.json",
    };
    const server = controlPlaneCommand("kube-apiserver", spec, place);
    expect(server.args).toContain("--authentication-config=/i/authentication.json");
    expect(server.files).toContain("/i/authentication.json");
    expect(controlPlaneCommand("kube-scheduler", spec, place).files).not.toContain("/i/authentication.json");
  });
});
