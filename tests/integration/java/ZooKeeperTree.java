import java.nio.charset.StandardCharsets;
import java.util.*;
import java.util.concurrent.CountDownLatch;
import org.apache.zookeeper.*;
import org.apache.zookeeper.data.*;

/** Changes a ZooKeeper tree in every way that a client can, then prints each node: PORT [work] [NEW]; NEW: 3.5 and later. */
public class ZooKeeperTree {
    static final List<ACL> OPEN = ZooDefs.Ids.OPEN_ACL_UNSAFE;
    static String port;

    static ZooKeeper connect() throws Exception {
        CountDownLatch connected = new CountDownLatch(1);
        ZooKeeper client = new ZooKeeper("127.0.0.1:" + port, 30000, event -> {
            if (event.getState() == Watcher.Event.KeeperState.SyncConnected) connected.countDown();
        });
        connected.await();
        client.addAuthInfo("digest", "kafka:secret".getBytes());
        return client;
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    interface Action { void run() throws Exception; }

    static void refused(Action action) throws Exception {
        try {
            action.run();
            throw new IllegalStateException("not refused");
        } catch (KeeperException expected) {
            // its error is in the log
        }
    }

    /** The call of 3.5 and later, whose transaction is another one; clients before do not have it. */
    static void createNew(ZooKeeper client, String path, CreateMode mode, long ttl) throws Exception {
        ZooKeeper.class.getMethod("create", String.class, byte[].class, List.class, CreateMode.class, Stat.class, long.class)
            .invoke(client, path, bytes("new"), OPEN, mode, new Stat(), ttl);
    }

    static void work(ZooKeeper client, boolean isNew) throws Exception {
        for (String path : List.of("/brokers", "/brokers/ids", "/brokers/topics", "/consumers", "/odd", "/odd/\u00e9\u4e2d"))
            client.create(path, null, OPEN, CreateMode.PERSISTENT);
        client.create("/empty", new byte[0], OPEN, CreateMode.PERSISTENT);
        client.create("/binary", new byte[] {0, -1, 127, -128}, OPEN, CreateMode.PERSISTENT);
        client.create("/large", new byte[200000], OPEN, CreateMode.PERSISTENT);
        for (int number = 0; number < 30; number++) {
            String topic = "/brokers/topics/t" + number;
            client.create(topic, bytes("{\"version\":1,\"partitions\":{\"0\":[1]}}"), OPEN, CreateMode.PERSISTENT);
            client.setData(topic, bytes("{\"version\":1,\"partitions\":{\"0\":[1,2]}}"), -1);
            if (number % 3 == 0) client.delete(topic, -1);
        }
        for (int number = 0; number < 5; number++)
            client.create("/odd/sequential_", bytes("" + number), OPEN, CreateMode.PERSISTENT_SEQUENTIAL);
        client.delete("/odd/sequential_0000000002", -1);
        client.create("/secured", bytes("x"), ZooDefs.Ids.CREATOR_ALL_ACL, CreateMode.PERSISTENT);
        client.create("/changed-acl", bytes("x"), OPEN, CreateMode.PERSISTENT);
        List<ACL> both = new ArrayList<>(ZooDefs.Ids.CREATOR_ALL_ACL);
        both.addAll(ZooDefs.Ids.READ_ACL_UNSAFE);
        client.setACL("/changed-acl", both, 0);
        refused(() -> client.setData("/empty", bytes("no"), 7));
        refused(() -> client.create("/brokers", null, OPEN, CreateMode.PERSISTENT));
        refused(() -> client.delete("/brokers", -1));
        client.multi(List.of(
            Op.create("/multi", bytes("m"), OPEN, CreateMode.PERSISTENT),
            Op.create("/multi/child", null, OPEN, CreateMode.PERSISTENT),
            Op.setData("/multi", bytes("set"), 0),
            Op.check("/multi", 1),
            Op.delete("/multi/child", 0)));
        refused(() -> client.multi(List.of(
            Op.create("/multi/never", null, OPEN, CreateMode.PERSISTENT),
            Op.check("/multi", 9),
            Op.delete("/multi", -1))));
        ZooKeeper other = connect();
        other.create("/brokers/ids/2", bytes("gone"), OPEN, CreateMode.EPHEMERAL);
        other.create("/brokers/ids/3", bytes("gone"), OPEN, CreateMode.EPHEMERAL);
        other.delete("/brokers/ids/3", -1);
        other.close();
        client.create("/brokers/ids/1", bytes("{\"version\":4}"), OPEN, CreateMode.EPHEMERAL);
        client.create("/odd/e_", null, OPEN, CreateMode.EPHEMERAL_SEQUENTIAL);
        if (isNew) {
            createNew(client, "/with-stat", CreateMode.PERSISTENT, -1);
            createNew(client, "/container", CreateMode.valueOf("CONTAINER"), -1);
            createNew(client, "/container/a", CreateMode.PERSISTENT, -1);
            createNew(client, "/lives", CreateMode.valueOf("PERSISTENT_WITH_TTL"), 86400000L);
        }
        for (int number = 0; number < 40; number++)
            client.setData("/empty", bytes("" + number), -1);
    }

    static void print(ZooKeeper client, String path) throws Exception {
        Stat stat = new Stat();
        byte[] data = client.getData(path, false, stat);
        StringBuilder acls = new StringBuilder();
        for (ACL acl : client.getACL(path, new Stat()))
            acls.append(acl.getPerms()).append(' ').append(acl.getId().getScheme()).append(' ').append(acl.getId().getId()).append(';');
        System.out.println(String.join("\t",
            Base64.getEncoder().encodeToString(bytes(path)),
            data == null ? "-" : Base64.getEncoder().encodeToString(data),
            stat.getCzxid() + " " + stat.getMzxid() + " " + stat.getPzxid() + " " + stat.getCtime() + " " + stat.getMtime()
                + " " + stat.getVersion() + " " + stat.getCversion() + " " + stat.getAversion() + " "
                + stat.getEphemeralOwner() + " " + stat.getNumChildren(),
            acls.toString()));
        for (String child : client.getChildren(path, false))
            print(client, path.equals("/") ? "/" + child : path + "/" + child);
    }

    public static void main(String[] arguments) throws Exception {
        port = arguments[0];
        ZooKeeper client = connect();
        List<String> rest = List.of(arguments).subList(1, arguments.length);
        if (rest.contains("work")) work(client, rest.contains("new"));
        print(client, "/");
        System.out.flush();
        Runtime.getRuntime().halt(0);  // the session is left open, as a crash leaves it
    }
}
