// The two dumbbells of bench/sim_speed.py for ns-3, 3.37 or later:
//   dumbbell --scenario=1   ten CUBIC flows, 100 Mbit/s, drop-tail (scenarios/dumbbell.toml), 60 s
//   dumbbell --scenario=2   eight CUBIC flows and two of datagrams, 1.5 Mbit/s, RED (scenarios/ns2.toml), 100 s
// Prints the segments that arrived and the events. The window is 4000 segments, not 1000 as in the other simulators:
// ns-3.37 crashes in TcpRateLinux where the receiver's window limits a flow.
#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

#include <iostream>
#include <string>
#include <vector>

using namespace ns3;

struct Dumbbell
{
    bool red;
    uint32_t tcp;
    uint32_t pairs;
    uint32_t segment;
    double seconds;
    std::string access, accessDelay, rate;
};

static NetDeviceContainer
Join(Ptr<Node> a, Ptr<Node> b, const std::string& rate, const std::string& delay, uint32_t packets, Ipv4AddressHelper& addresses)
{
    PointToPointHelper link;
    link.SetDeviceAttribute("DataRate", StringValue(rate));
    link.SetChannelAttribute("Delay", StringValue(delay));
    link.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue(std::to_string(packets) + "p"));
    NetDeviceContainer devices = link.Install(a, b);
    addresses.Assign(devices);
    addresses.NewNetwork();
    // Assigning an address installs FQ-CoDel; the queue is the device's.
    TrafficControlHelper none;
    none.Uninstall(devices);
    return devices;
}

int
main(int argc, char* argv[])
{
    uint32_t scenario = 1;
    uint32_t window = 4000;
    uint32_t seed = 1;
    CommandLine cmd;
    cmd.AddValue("scenario", "1 or 2", scenario);
    cmd.AddValue("window", "segments that a flow may have outstanding", window);
    cmd.AddValue("seed", "of the start times and of RED", seed);
    cmd.Parse(argc, argv);
    RngSeedManager::SetSeed(seed);
    const Dumbbell d = scenario == 1 ? Dumbbell{false, 10, 10, 1000, 60, "1Gbps", "5ms", "100Mbps"}
                                     : Dumbbell{true, 8, 10, 1460, 100, "10Mbps", "1ms", "1.5Mbps"};

    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TcpCubic::GetTypeId()));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(d.segment));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(1));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(window * d.segment));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(window * d.segment));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", StringValue("600ms"));

    NodeContainer routers(2);
    InternetStackHelper stack;
    stack.Install(routers);
    Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.0");
    // With RED in front the device holds one packet.
    NetDeviceContainer middle = Join(routers.Get(0), routers.Get(1), d.rate, "50ms", d.red ? 1 : 1000, addresses);
    if (d.red)
    {
        DynamicCast<PointToPointNetDevice>(middle.Get(1))->GetQueue()->SetMaxSize(QueueSize("1000p"));
        TrafficControlHelper control;
        control.SetRootQueueDisc("ns3::RedQueueDisc",
                                 "MaxSize", StringValue("50p"),
                                 "MinTh", DoubleValue(5),
                                 "MaxTh", DoubleValue(15),
                                 "LInterm", DoubleValue(10),
                                 "Gentle", BooleanValue(true),
                                 "MeanPktSize", UintegerValue(500),
                                 "LinkBandwidth", StringValue(d.rate),
                                 "LinkDelay", StringValue("50ms"));
        control.Install(middle.Get(0));
    }

    Ptr<UniformRandomVariable> uniform = CreateObject<UniformRandomVariable>();
    ApplicationContainer sinks;
    for (uint32_t i = 0; i < d.pairs; i++)
    {
        NodeContainer ends(2);
        stack.Install(ends);
        Join(ends.Get(0), routers.Get(0), d.access, d.accessDelay, d.red ? 5000 : 100000, addresses);
        Join(routers.Get(1), ends.Get(1), d.access, d.accessDelay, d.red ? 5000 : 100000, addresses);
        const Ipv4Address to = ends.Get(1)->GetObject<Ipv4>()->GetAddress(1, 0).GetLocal();
        const std::string protocol = i < d.tcp ? "ns3::TcpSocketFactory" : "ns3::UdpSocketFactory";
        PacketSinkHelper sink(protocol, InetSocketAddress(Ipv4Address::GetAny(), 9));
        ApplicationContainer receiver = sink.Install(ends.Get(1));
        ApplicationContainer sender;
        if (i < d.tcp)
        {
            BulkSendHelper bulk(protocol, InetSocketAddress(to, 9));
            sender = bulk.Install(ends.Get(0));
            sinks.Add(receiver);
        }
        else
        {
            // 210 bytes of IP packet: 182 of payload.
            OnOffHelper steady(protocol, InetSocketAddress(to, 9));
            steady.SetConstantRate(DataRate(448000 * 182 / 210), 182);
            sender = steady.Install(ends.Get(0));
        }
        sender.Start(Seconds(d.red ? uniform->GetValue(0, 1) : 0.1 * i));
    }
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();

    Simulator::Stop(Seconds(d.seconds));
    Simulator::Run();
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < sinks.GetN(); i++)
    {
        bytes += DynamicCast<PacketSink>(sinks.Get(i))->GetTotalRx();
    }
    std::cout << bytes / d.segment << " segments, " << bytes * 8e-6 / d.seconds << " Mbit/s, "
              << Simulator::GetEventCount() << " events" << std::endl;
    Simulator::Destroy();
    return 0;
}
