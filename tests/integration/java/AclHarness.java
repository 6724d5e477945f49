import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.internals.Plugin;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;

/**
 * The decisions of Kafka's StandardAuthorizer. A line of standard input is one command, its words apart by tabs:
 * {@code new SUPER_USERS ALLOW_EVERYONE}, {@code add TYPE NAME PATTERN PRINCIPAL HOST OPERATION PERMISSION},
 * {@code may PRINCIPAL HOST OPERATION TYPE NAME}, {@code any PRINCIPAL HOST OPERATION TYPE}; the last two are answered
 * with true or false. Types, patterns, operations and permissions are their numbers.
 */
public final class AclHarness {
    private AclHarness() {
    }

    public static void main(String[] arguments) throws IOException {
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        StandardAuthorizer authorizer = null;
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\t", -1);
            switch (words[0]) {
                case "new" -> {
                    authorizer = new StandardAuthorizer();
                    authorizer.configure(Map.of(
                        "super.users", words[1], "allow.everyone.if.no.acl.found", words[2], "node.id", "1"));
                    authorizer.withPluginMetrics(new PluginMetricsImpl(new Metrics(), Map.of()));
                    authorizer.completeInitialLoad();
                }
                case "add" -> authorizer.addAcl(Uuid.randomUuid(), new StandardAcl(
                    ResourceType.fromCode(number(words[1])), words[2], PatternType.fromCode(number(words[3])),
                    words[4], words[5], AclOperation.fromCode(number(words[6])),
                    AclPermissionType.fromCode(number(words[7]))));
                case "may" -> {
                    var resource = new ResourcePattern(
                        ResourceType.fromCode(number(words[4])), words[5], PatternType.LITERAL);
                    var action = new Action(AclOperation.fromCode(number(words[3])), resource, 1, false, false);
                    say(authorizer.authorize(new Client(words[1], words[2]), List.of(action)).get(0));
                }
                case "any" -> say(authorizer.authorizeByResourceType(
                    new Client(words[1], words[2]), AclOperation.fromCode(number(words[3])),
                    ResourceType.fromCode(number(words[4]))));
                default -> throw new IllegalArgumentException(line);
            }
        }
    }

    private static byte number(String word) {
        return Byte.parseByte(word);
    }

    private static void say(AuthorizationResult result) {
        System.out.println(result == AuthorizationResult.ALLOWED);
    }

    private record Client(String user, String host) implements AuthorizableRequestContext {
        @Override
        public String listenerName() {
            return "PLAINTEXT";
        }

        @Override
        public SecurityProtocol securityProtocol() {
            return SecurityProtocol.PLAINTEXT;
        }

        @Override
        public KafkaPrincipal principal() {
            String[] words = user.split(":", 2);
            return new KafkaPrincipal(words[0], words[1]);
        }

        @Override
        public InetAddress clientAddress() {
            try {
                return InetAddress.getByName(host);
            } catch (IOException error) {
                throw new IllegalArgumentException(error);
            }
        }

        @Override
        public int requestType() {
            return 0;
        }

        @Override
        public int requestVersion() {
            return 0;
        }

        @Override
        public String clientId() {
            return "test";
        }

        @Override
        public int correlationId() {
            return 0;
        }
    }
}
